// A program's memory: its course over time, and what is alive at the moment that is chosen there.
import { goTo, momentHash, wantedOf } from './address.js';
import { aliveTable, matches } from './alive.js';
import { blockCard, reveal } from './block.js';
import { setCard } from './card.js';
import { choice, pick, select } from './controls.js';
import { courseOf } from './course.js';
import { unpacked } from './data.js';
import { h, refill } from './dom.js';
import { bytes, exact, exactBytes, plural } from './format.js';
import { below, icicle } from './icicle.js';
import { rankMap, ranksOf } from './ranks.js';
import { segmentMap } from './segments.js';
import { stackOf } from './stack.js';

const MANY = 8; // ranks; more are a map

/** Addresses of lines in an editor, if this page lies where the machine that wrote it put it. */
function editor(page) {
  const here = location.protocol === 'file:' && decodeURIComponent(location.pathname) === page;
  return (file, line) => (here && file?.startsWith('/') ? `vscode://file${encodeURI(file)}:${line}` : '');
}

function draw(place, data) {
  const link = editor(data.page);
  const body = h('div', {});
  const schedules = [...new Set(data.pictures.map(({ schedule }) => schedule))];
  const own = {}; // the chosen {picture, name: of a rank of the map}
  const courses = new Map();
  const courseIn = (picture) => {
    if (!courses.has(picture)) courses.set(picture, courseOf(picture));
    return courses.get(picture);
  };
  const firstOf = (course) => course.refused || course.peak;

  /** `wanted`: of wantedOf. */
  function show(wanted = {}) {
    const { picture } = own;
    const course = courseIn(picture);
    const window = wanted.window?.map(course.momentOf);
    const state = { moment: wanted.t === undefined ? firstOf(course) : course.momentOf(wanted.t), window: window?.[0] < window?.[1] ? window : null, path: [], words: '', sort: { column: 0, up: false }, all: false };
    const time = h('div', {});
    const alive = h('div', { id: 'alive' });
    const [aliveCard, segmentCard] = [h('div', {}), h('div', {})];
    let stack = null;
    const kept = (replaced) => goTo(momentHash(data.pictures, picture, course, state), replaced);
    const whereOf = (moment) => (course.last === 0 ? 'When the file was written' : moment === course.refused ? 'When memory was refused' : moment === course.peak ? 'At the peak' : 'At the chosen moment');

    function drawAlive() {
      const all = course.alive(state.moment);
      const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
      const found = all.filter((block) => matches(block, words));
      const some = below(found, state.path);
      const sum = (blocks) => blocks.reduce((total, block) => total + block.bytes, 0);
      const total = sum(all);
      const phase = course.phaseAt(state.moment);
      const waiting = sum(all.filter((block) => block.waiting));
      const share = total > 0 ? ` (${((100 * sum(some)) / total).toFixed(1)} %)` : '';
      const where = `${whereOf(state.moment)}, event ${exact(course.eventOf(state.moment))}${phase && `, in ${phase}`}`;
      const chosen = words.length > 0 || state.path.length > 0;
      const moved = (path) => { state.path = path; state.all = false; drawAlive(); };
      title.textContent = whereOf(state.moment).replace(/^./, (letter) => `Alive ${letter.toLowerCase()}`);
      refill(
        alive,
        h(
          'p',
          { class: 'lede', 'data-bytes': total },
          `${where}: `,
          h('data', { value: total, title: exactBytes(total) }, bytes(total)),
          ` active in ${plural(all.length, 'block')}, ${bytes(course.reserved(state.moment))} reserved.`,
          waiting > 0 && [' Freed, and held for another stream: ', h('data', { class: 'waiting', value: waiting, title: exactBytes(waiting) }, bytes(waiting)), '.'],
          chosen && ` Shown: ${bytes(sum(some))}${share} in ${plural(some.length, 'block')}.`,
        ),
        some.length === 0
          ? h('p', { class: 'empty' }, chosen && all.length > 0 ? 'Nothing that is alive has these words.' : 'Nothing is alive at this moment.')
          : [icicle(found, state.path, moved, pickAlive), aliveCard, aliveTable(some, state, drawAlive, link, pickAlive)],
      );
      if (course.hasSegments) drawSegments(where);
      stack?.say(`${where}: ${bytes(total)} active`);
    }

    const segments = h('div', {});
    const map = course.hasSegments && h('section', { id: 'segments' }, h('h2', {}, 'Segments'), segments);
    let drawn = null;
    function drawSegments(where) {
      if (drawn === state.moment) return;
      drawn = state.moment;
      refill(
        segments,
        state.moment !== course.fullest && h('button', { class: 'link', onclick: () => choose(course.fullest) }, 'Go to the moment at which most is reserved'),
        segmentMap(course, state.moment, where, pickSegment, segmentCard),
      );
    }

    /** Shows the stacks of some blocks in `box`, until others are chosen. */
    const picker = (box) => (title, blocks) => {
      const card = blockCard(course, title, blocks, { link, go: choose, close: () => refill(box) });
      refill(box, card);
      reveal(card);
    };
    const [pickAlive, pickSegment] = [aliveCard, segmentCard].map(picker);

    const choose = (moment, byKey = false) => {
      state.moment = moment;
      kept(byKey);
      state.all = false;
      stack?.redraw();
      peakButton.hidden = moment === course.peak;
      drawAlive();
    };
    const zoom = (window) => {
      state.window = window;
      kept(false);
      const focused = stack.element.contains(document.activeElement);
      drawTime();
      if (focused) stack.element.focus({ preventScroll: true });
    };
    function drawTime() {
      if (course.last === 0) return; // a file without a trace
      stack = stackOf(course, state, { choose, zoom });
      refill(time, stack.legend, stack.element, h('p', { class: 'quiet' }, stack.note));
      allButton.hidden = state.window === null;
    }
    const peakButton = h('button', { class: 'link', hidden: state.moment === course.peak, onclick: () => choose(course.peak) }, 'Back to the peak');
    const allButton = h('button', { class: 'link', hidden: true, onclick: () => zoom(null) }, 'Show all events');
    const title = h('h2', {});
    const search = h('input', { type: 'search', oninput: () => { state.words = search.value; state.path = []; drawAlive(); } });
    drawTime();
    drawAlive();
    refill(
      body,
      time,
      course.last > 0 && h('p', { class: 'quiet hint' }, 'Click a moment to see what is alive then; drag to zoom. ', allButton),
      h('section', {}, title, h('div', { class: 'controls' }, h('label', { class: 'control search' }, h('span', {}, 'Search kinds, modules, lines'), search), peakButton), alive),
      map,
    );
  }

  const controls = h('div', { class: 'controls' });
  const heat = h('div', {});
  function choices() {
    const { schedule: here } = own.picture;
    const picturesOf = (name) => data.pictures.filter(({ schedule }) => schedule === name);
    const some = picturesOf(here);
    const ranks = some.map((picture) => [picture, picture.names.join(', ')]);
    const take = (picture) => {
      own.picture = picture;
      const course = courseIn(picture);
      goTo(momentHash(data.pictures, picture, course, { moment: firstOf(course), window: null }));
      choices();
      show();
    };
    const takeSchedule = (name) => {
      const others = picturesOf(name);
      take(others.find(({ names }) => names.includes(own.picture.names[0])) ?? others[0]);
    };
    const each = ranksOf(some);
    const many = each.length > MANY && ranks.length > 1;
    const chosen = each.find(({ name, picture }) => name === own.name && picture === own.picture) ?? each.find(({ picture }) => picture === own.picture);
    const go = (rank) => {
      own.name = rank.name;
      take(rank.picture);
    };
    refill(heat, many && rankMap(each, data.phases[here], chosen, go));
    refill(
      controls,
      schedules.length > 1 && choice('Schedule', schedules.map((name) => [name, name]), here, takeSchedule),
      many && select('Rank', each.map((rank) => [rank, rank.name]), chosen, go),
      ranks.length > 1 && !many && pick(each.every(({ name }) => name.startsWith('rank')) ? 'Rank' : 'Device', ranks, own.picture, take),
      ranks.length === 1 && some[0].names.length > 1 && h('p', { class: 'quiet' }, `${some[0].names.join(', ')} are equal.`),
    );
  }
  const restore = () => {
    const wanted = wantedOf(location.hash, data.pictures);
    own.picture = wanted.picture ?? data.pictures[0];
    choices();
    show(wanted);
  };
  addEventListener('hashchange', restore);
  restore();
  refill(place, heat, controls, body);
}

/** Draws the pictures of a document that has them, in the element that it gives. */
export async function drawMemory() {
  const place = document.getElementById('memory');
  if (!place) return null;
  const data = await unpacked(place.querySelector('script'));
  setCard({ device: { profile: data.gpu, profile_bytes: data.capacity } });
  draw(place, data);
  return place;
}
