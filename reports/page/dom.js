// Elements are made, never parsed: a name from a report can only ever become text.

/** Children as `h` takes them: lists of lists, with gaps. */
const present = (children) =>
  children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false);

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...present(children));
  return element;
}

/** Puts children as `h` takes them in the place of all that the element held. */
export function refill(element, ...children) {
  element.replaceChildren(...present(children));
}

/** An id no other element has. */
let ids = 0;
export function freshId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}
