// The address of a moment: #rank=0&t=3223&from=3000&to=4000 names a picture of a program's memory, a moment of it and a stretch, by the numbers of events.

/** "0" of "rank 0"; other names as they are. */
const shortOf = (name) => /^rank (\S+)$/.exec(name)?.[1] ?? name;

/** The fragment of the address for a picture, its course and the chosen {moment, window}. */
export function momentHash(pictures, picture, course, { moment, window }) {
  const fields = new URLSearchParams();
  if (new Set(pictures.map(({ schedule }) => schedule)).size > 1) fields.set('schedule', picture.schedule);
  if (pictures.length > 1) fields.set('rank', shortOf(picture.names[0]));
  fields.set('t', course.eventOf(moment));
  if (window) {
    fields.set('from', course.eventOf(window[0]));
    fields.set('to', course.eventOf(window[1]));
  }
  return `#${fields}`;
}

/** The choices that a fragment names: {picture, t, window: of events}; one that is missing or does not exist is undefined. */
export function wantedOf(hash, pictures) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const number = (key) => (/^\d{1,15}$/.test(fields.get(key) ?? '') ? Number(fields.get(key)) : undefined);
  const [schedule, rank] = [fields.get('schedule'), fields.get('rank')];
  const picture = pictures.find(
    (one) => (schedule === null || one.schedule === schedule) && (rank === null || one.names.some((name) => shortOf(name) === rank)),
  );
  const [from, to] = [number('from'), number('to')];
  return { picture, t: number('t'), window: from < to ? [from, to] : undefined };
}

/** Sets the page's fragment: as a new step of the browser's history, or, if `replaced`, in place of the present one. */
export function goTo(hash, replaced) {
  if (hash === location.hash) return;
  history[replaced ? 'replaceState' : 'pushState'](null, '', hash);
}
