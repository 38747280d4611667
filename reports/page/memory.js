// A program's memory: its course over time, and what is alive at the moment that is chosen there.
import { aliveTable, matches } from './alive.js';
import { setCard } from './card.js';
import { choice, pick } from './controls.js';
import { courseOf } from './course.js';
import { unpacked } from './data.js';
import { h, refill } from './dom.js';
import { bytes, exact, exactBytes, plural } from './format.js';
import { below, icicle } from './icicle.js';
import { stackOf } from './stack.js';

/** Addresses of lines in an editor, if this page lies where the machine that wrote it put it. */
function editor(page) {
  const here = location.protocol === 'file:' && decodeURIComponent(location.pathname) === page;
  return (file, line) => (here && file?.startsWith('/') ? `vscode://file${encodeURI(file)}:${line}` : '');
}

function draw(place, data) {
  const link = editor(data.page);
  const body = h('div', {});
  const schedules = [...new Set(data.pictures.map(({ schedule }) => schedule))];
  const own = { schedule: data.pictures[0].schedule, picture: data.pictures[0] };
  const courses = new Map();

  function show() {
    const { picture } = own;
    if (!courses.has(picture)) courses.set(picture, courseOf(picture));
    const course = courses.get(picture);
    const state = { moment: course.peak, window: null, path: [], words: '', sort: { column: 0, up: false }, all: false };
    const time = h('div', {});
    const alive = h('div', { id: 'alive' });
    let stack = null;

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
      const where = `${state.moment === course.peak ? 'At the peak' : 'At the chosen moment'}, event ${exact(course.eventOf(state.moment))}${phase && `, in ${phase}`}`;
      const chosen = words.length > 0 || state.path.length > 0;
      const moved = (path) => { state.path = path; state.all = false; drawAlive(); };
      title.textContent = state.moment === course.peak ? 'Alive at the peak' : 'Alive at the chosen moment';
      refill(
        alive,
        h(
          'p',
          { class: 'lede', 'data-bytes': total },
          `${where}: `,
          h('data', { value: total, title: exactBytes(total) }, bytes(total)),
          ` active in ${plural(all.length, 'block')}, ${bytes(course.reserved(state.moment))} reserved.`,
          waiting > 0 && ` Freed, and held for another stream: ${bytes(waiting)}.`,
          chosen && ` Shown: ${bytes(sum(some))}${share} in ${plural(some.length, 'block')}.`,
        ),
        some.length === 0
          ? h('p', { class: 'empty' }, chosen && all.length > 0 ? 'Nothing that is alive has these words.' : 'Nothing is alive at this moment.')
          : [icicle(found, state.path, moved), aliveTable(some, state, drawAlive, link)],
      );
      stack?.say(`${where}: ${bytes(total)} active`);
    }

    const choose = (moment) => {
      state.moment = moment;
      state.all = false;
      stack.redraw();
      peakButton.hidden = moment === course.peak;
      drawAlive();
    };
    const zoom = (window) => {
      state.window = window;
      const focused = stack.element.contains(document.activeElement);
      drawTime();
      if (focused) stack.element.focus({ preventScroll: true });
    };
    function drawTime() {
      stack = stackOf(course, state, { choose, zoom });
      refill(time, stack.legend, stack.element, h('p', { class: 'quiet' }, stack.note));
      allButton.hidden = state.window === null;
    }
    const peakButton = h('button', { class: 'link', hidden: true, onclick: () => choose(course.peak) }, 'Back to the peak');
    const allButton = h('button', { class: 'link', hidden: true, onclick: () => zoom(null) }, 'Show all events');
    const title = h('h2', {});
    const search = h('input', { type: 'search', oninput: () => { state.words = search.value; state.path = []; drawAlive(); } });
    drawTime();
    drawAlive();
    refill(
      body,
      time,
      h('p', { class: 'quiet' }, 'Click a moment to see what is alive then; drag to zoom. ', allButton),
      h('section', {}, title, h('div', { class: 'controls' }, h('label', { class: 'control search' }, h('span', {}, 'Search kinds, modules, lines'), search), peakButton), alive),
    );
  }

  const controls = h('div', { class: 'controls' });
  function choices() {
    const some = data.pictures.filter(({ schedule }) => schedule === own.schedule);
    const ranks = some.map((picture) => [picture, picture.names.join(', ')]);
    const taken = (key) => (value) => {
      own[key] = value;
      if (key === 'schedule') own.picture = data.pictures.find(({ schedule }) => schedule === value);
      choices();
      show();
    };
    refill(
      controls,
      schedules.length > 1 && choice('Schedule', schedules.map((name) => [name, name]), own.schedule, taken('schedule')),
      ranks.length > 1 && pick('Rank', ranks, own.picture, taken('picture')),
      ranks.length === 1 && some[0].names.length > 1 && h('p', { class: 'quiet' }, `${some[0].names.join(', ')} are equal.`),
    );
  }
  choices();
  show();
  refill(place, controls, body);
}

/** Draws the pictures of a document that has them. */
export async function drawMemory() {
  const place = document.getElementById('memory');
  if (!place) return;
  const data = await unpacked(place.querySelector('script'));
  setCard({ device: { profile: data.gpu, profile_bytes: data.capacity } });
  draw(place, data);
}
