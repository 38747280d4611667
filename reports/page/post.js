// Copies for an issue: the page's summary as Markdown, and its picture as PNG.
import { h, refill } from './dom.js';

const SCALE = 2;
const EDGE = 16;
const LINE = 20;

/** An SVG of the page as an image, whose text has the page's own font. */
async function imageOf(svg, font) {
  const copy = svg.cloneNode(true);
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  const text = new XMLSerializer().serializeToString(copy).replaceAll(/font-family:\s*inherit/g, `font-family:${font}`);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  return image;
}

/** A text in lines that are no wider than `most`. */
function wrapped(pen, text, most) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (pen.measureText(longer).width <= most || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** The chart with its legend between the page's heading and how the run was made: a PNG. */
async function pictureOf(memory) {
  const svg = memory.querySelector('.chart svg');
  const { width, height } = svg.getBoundingClientRect();
  const style = getComputedStyle(document.body);
  const quiet = getComputedStyle(document.querySelector('.facts')).color;
  const font = style.fontFamily.replaceAll('"', "'");
  const image = await imageOf(svg, font);
  const canvas = h('canvas', {});
  const pen = canvas.getContext('2d');
  const heading = `600 17px ${font}`;
  const small = `13px ${font}`;
  pen.font = heading;
  const title = wrapped(pen, document.querySelector('h1').innerText, width);
  pen.font = small;
  const facts = [...document.querySelectorAll('.facts')].flatMap((fact) => wrapped(pen, fact.innerText, width));
  const entries = [...memory.querySelectorAll('.legend li')].map((entry) => ({ name: entry.innerText.trim(), swatch: entry.querySelector('.swatch') }));
  const places = []; // of the legend: [x, row]
  let [x, row] = [0, 0];
  for (const { name } of entries) {
    const room = pen.measureText(name).width + 36;
    if (x > 0 && x + room > width) [x, row] = [0, row + 1];
    places.push([x, row]);
    x += room;
  }
  const top = EDGE + title.length * (LINE + 4) + (row + 1) * LINE + 8;
  canvas.width = SCALE * (width + 2 * EDGE);
  canvas.height = SCALE * (top + height + facts.length * LINE + 2 * EDGE);
  pen.scale(SCALE, SCALE);
  pen.fillStyle = style.backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = style.color;
  pen.font = heading;
  title.forEach((line, i) => pen.fillText(line, EDGE, EDGE + 16 + i * (LINE + 4)));
  pen.font = small;
  entries.forEach(({ name, swatch }, i) => {
    const [left, base] = [EDGE + places[i][0], EDGE + title.length * (LINE + 4) + places[i][1] * LINE + 14];
    const dashed = swatch.classList.contains('dashed');
    pen.fillStyle = dashed ? style.color : getComputedStyle(swatch).backgroundColor;
    if (dashed) for (const at of [0, 6]) pen.fillRect(left + at, base - 5, 4, 2);
    else pen.fillRect(left, base - 10, 10, 10);
    pen.fillStyle = style.color;
    pen.fillText(name, left + 15, base);
  });
  pen.drawImage(image, EDGE, top, width, height);
  pen.fillStyle = quiet;
  facts.forEach((line, i) => pen.fillText(line, EDGE, top + height + EDGE + 8 + i * LINE));
  return new Promise((done, failed) => {
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error('the browser makes no picture'))), 'image/png');
  });
}

/** Fills the place that html.cpp left below the heading; `memory`: the element with the chart, if there is one. */
export function addPost(memory) {
  const place = document.getElementById('post');
  if (!place) return;
  const markdown = JSON.parse(place.querySelector('script').textContent);
  const said = h('span', { class: 'quiet', role: 'status' });
  const shown = h('div', {});
  const say = (text, ...below) => {
    said.textContent = text;
    refill(shown, ...below);
  };

  async function copyMarkdown() {
    try {
      await navigator.clipboard.writeText(markdown);
      say('The Markdown is copied.');
    } catch {
      const box = h('textarea', { readonly: true, rows: 8, 'aria-label': 'The page as Markdown' });
      box.value = markdown;
      say('This browser does not let the page copy text: it stands below, selected.', box);
      box.select();
    }
  }
  async function copyPicture() {
    let blob;
    try {
      blob = await pictureOf(memory);
    } catch (error) {
      say(`This browser does not make the picture: ${error.message}.`);
      return;
    }
    try {
      await navigator.clipboard.write([new ClipboardItem({ [blob.type]: blob })]);
      say('The picture is copied.');
    } catch {
      const link = h('a', { href: URL.createObjectURL(blob), download: 'memory.png' }, 'Save the picture');
      say('This browser does not let the page copy a picture. ', link);
    }
  }
  const drawn = memory?.querySelector('.chart');
  place.append(
    h(
      'div',
      { class: 'post' },
      h('button', { class: 'link', onclick: copyMarkdown }, 'Copy as Markdown'),
      drawn && h('button', { class: 'link', onclick: copyPicture }, 'Copy picture'),
      said,
    ),
    shown,
  );
}
