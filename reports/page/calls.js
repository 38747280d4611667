// Python stacks of a page: picture_json.cpp packs them as a tree of calls, each with its caller.

const unpackedCalls = new WeakMap();

function unpack({ functions, files, function: of, file, line, sources, caller, frame }) {
  const frames = of.map((name, i) => ({ function: functions[name], file: files[file[i]], line: line[i], source: sources[i] }));
  return (call) => {
    const out = [];
    for (let at = call; at > 0; at -= caller[at - 1]) out.push(frames[frame[at - 1]]);
    return out;
  };
}

/** The frames of a call and of its callers, the innermost first; null where the page has left them out. `packed`: of the page. */
export function stackOfCall(packed, call) {
  if (call < 0 || !packed) return null;
  if (!unpackedCalls.has(packed)) unpackedCalls.set(packed, unpack(packed));
  return unpackedCalls.get(packed)(call);
}
