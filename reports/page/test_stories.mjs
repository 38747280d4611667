// The stories of a run, as they stand on its page: of each scenario of OUT/reports/run.
import assert from 'node:assert/strict';
import { holdStories } from './stories.mjs';

export const tests = ({ browser, file }) => ({
  async 'each bar and each column has the kinds of the record, and its sum'() {
    const all = await holdStories(browser, file('run'), () => true);
    console.log(JSON.stringify(all));
    assert.ok(Object.values(all).length > 0);
    for (const [scenario, { columns, counted }] of Object.entries(all))
      assert.ok(columns > 100 && (counted > 0 || scenario === 'fsdp_prefetch'), scenario); // where freed blocks wait for the other stream
  },
});
