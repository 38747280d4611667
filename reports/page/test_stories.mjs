// The stories of a run, as they stand on its page: of each variant of OUT/reports/run; with TIDEMARK_TEST_DRAW of a third of them.
import assert from 'node:assert/strict';
import { holdStories } from './stories.mjs';

const PARTS = 3;

export const tests = ({ browser, file }) => ({
  async 'each bar and each column has the kinds of the record, and its sum'() {
    const { TIDEMARK_TEST_DRAW: draw } = process.env;
    const drawn = ({ variants }, variant) => draw === undefined || variants.indexOf(variant) % PARTS === Number(draw) % PARTS;
    const all = await holdStories(browser, file('run'), drawn);
    console.log(JSON.stringify(all));
    assert.ok(Object.values(all).length > 0);
    for (const [scenario, { columns, counted }] of Object.entries(all))
      assert.ok(columns > 100 && (counted > 0 || scenario === 'fsdp_prefetch'), scenario); // where freed blocks wait for the other stream
  },
});
