// Faults of the texts of a page as it is drawn: texts that lie on each other, that a line strikes through, or that are cut.

/** Sentences on what overlaps or is cut, of the page that stands open; [] where nothing does. */
export function overprints(page) {
  return page.evaluate(() => {
    const SLACK = 0.75; // pixels: neither a glyph nor a line is drawn sharper than that
    const pen = document.createElement('canvas').getContext('2d');
    const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest('.unseen, script, style, noscript, option');
    const quoted = (text) => `"${text.trim().replace(/\s+/g, ' ').slice(0, 60)}"`;
    const out = [];

    /** The box of the ink in a line of text: a font's box has room above and below its letters. */
    function inked(box, text, style) {
      pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down, actualBoundingBoxAscent: top, actualBoundingBoxDescent: bottom } = pen.measureText(text);
      const base = box.top + (box.bottom - box.top - up - down) / 2 + up;
      return { left: box.left, right: box.right, top: base - top, bottom: base + bottom };
    }

    /** What hides parts of an element: the boxes of its ancestors that clip, and whether one can scroll to the rest. */
    function clipsOf(element) {
      const clips = [];
      for (let one = element; one && one !== document.documentElement; one = one.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(one);
        if (overflowX === 'visible' && overflowY === 'visible') continue;
        if (one instanceof SVGElement && !(one instanceof SVGSVGElement)) continue;
        const scrolls = [overflowX, overflowY].some((how) => how === 'auto' || how === 'scroll');
        clips.push({ box: one.getBoundingClientRect(), scrolls, ellipsis: getComputedStyle(one).textOverflow === 'ellipsis' });
      }
      return clips;
    }

    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const texts = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.textContent.trim() || !seen(element)) continue;
      const style = getComputedStyle(element);
      const svg = element instanceof SVGElement;
      const range = document.createRange();
      range.selectNodeContents(node);
      const clips = clipsOf(element);
      for (const rect of range.getClientRects()) {
        if (rect.width < 1 || rect.height < 1) continue;
        let box = inked(rect, node.textContent, style);
        let hidden = false;
        for (const clip of clips) {
          const { left, right, top, bottom } = clip.box;
          if (!clip.scrolls && !clip.ellipsis && (box.left < left - SLACK || box.right > right + SLACK || box.top < top - SLACK || box.bottom > bottom + SLACK))
            out.push(`${quoted(node.textContent)} is cut by its box`);
          box = { left: Math.max(box.left, left), right: Math.min(box.right, right), top: Math.max(box.top, top), bottom: Math.min(box.bottom, bottom) };
          hidden ||= box.right - box.left < 1 || box.bottom - box.top < 1;
        }
        if (hidden) continue;
        if (svg && node.textContent.trimEnd().endsWith('…')) out.push(`${quoted(node.textContent)} is cut by what made it`);
        if (svg) {
          const canvas = element.ownerSVGElement.getBoundingClientRect();
          for (const [side, by] of [['left', canvas.left - box.left], ['right', box.right - canvas.right], ['top', canvas.top - box.top], ['bottom', box.bottom - canvas.bottom]])
            if (by > SLACK) out.push(`${quoted(node.textContent)} sticks out of its picture by ${by.toFixed(1)} pixels (${side})`);
        }
        if (box.left < -SLACK || box.right > document.documentElement.clientWidth + SLACK)
          out.push(`${quoted(node.textContent)} is cut by the window`);
        const halo = svg && style.paintOrder.startsWith('stroke') && style.stroke !== 'none';
        const z = element.closest('.bar, .fixed, [style*="z-index: 9999999"]') ? 1 : 0; // lies over the page by design
        texts.push({ node, element, box, svg, halo, z, text: node.textContent });
      }
    }

    /** Labels of a picture, which no layout keeps apart, also when they touch. */
    const meet = (a, b) => {
      const apart = a.svg && b.svg ? 2 : 0;
      const over = (low, high) => Math.min(a.box[high], b.box[high]) - Math.max(a.box[low], b.box[low]);
      return over('left', 'right') > SLACK - apart && over('top', 'bottom') > SLACK - apart;
    };
    texts.sort((a, b) => a.box.top - b.box.top);
    texts.forEach((one, i) => {
      for (let k = i + 1; k < texts.length && texts[k].box.top < one.box.bottom + 2; k += 1)
        if (texts[k].node !== one.node && texts[k].z === one.z && meet(one, texts[k])) out.push(`${quoted(one.text)} lies on ${quoted(texts[k].text)}`);
    });

    // Lines of a picture through its texts. A text with a rim in the colour of the paper can be read over a line.
    for (const picture of document.querySelectorAll('svg')) {
      if (!seen(picture)) continue;
      const inside = texts.filter(({ element, halo }) => !halo && element.ownerSVGElement === picture);
      if (inside.length === 0) continue;
      for (const path of picture.querySelectorAll('path, line, polyline')) {
        const style = getComputedStyle(path);
        if (style.stroke === 'none' || Number(style.strokeWidth.replace('px', '')) === 0 || (style.fill !== 'none' && style.fill !== 'transparent')) continue;
        const length = path.getTotalLength();
        const matrix = path.getScreenCTM();
        if (!length || !matrix) continue;
        const around = path.getBoundingClientRect();
        const near = inside.filter(({ box }) => around.left < box.right && around.right > box.left && around.top < box.bottom && around.bottom > box.top);
        for (let i = 0; near.length > 0 && i <= Math.min(4000, length); i += 1) {
          const at = path.getPointAtLength((length * i) / Math.min(4000, length)).matrixTransform(matrix);
          const struck = near.findIndex(({ box }) => at.x > box.left + SLACK && at.x < box.right - SLACK && at.y > box.top + SLACK && at.y < box.bottom - SLACK);
          if (struck >= 0) out.push(`a line strikes through ${quoted(near.splice(struck, 1)[0].text)}`);
        }
      }
    }
    return [...new Set(out)];
  });
}

/** Boxes that are wider than what is seen of them, without a sign that one can scroll. */
export function unmarked(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll('.scroller')]
      .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).backgroundAttachment.indexOf('local') < 0)
      .map((one) => `a table of ${one.scrollWidth} pixels in ${one.clientWidth}, without a sign: "${one.innerText.replace(/\s+/g, ' ').slice(0, 60)}"`),
  );
}
