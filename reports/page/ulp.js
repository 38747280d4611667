// Distances between floating-point numbers, in units of the last place.

const view = new DataView(new ArrayBuffer(8));

/** Bits as an integer that grows with the number. */
const ORDERED = {
  float64: (value) => {
    view.setFloat64(0, value);
    const bits = view.getBigInt64(0);
    return bits < 0n ? -(bits & 0x7fffffffffffffffn) : bits;
  },
  float32: (value) => {
    view.setFloat32(0, value);
    const bits = view.getInt32(0);
    return BigInt(bits < 0 ? -(bits & 0x7fffffff) : bits);
  },
  bfloat16: (value) => ORDERED.float32(value) / 65536n,
};

function fits(value, type) {
  if (type === 'float64') return true;
  if (Math.fround(value) !== value) return false;
  if (type === 'float32') return true;
  view.setFloat32(0, value);
  return view.getUint16(2) === 0;
}

/** The narrowest type that holds all of `values`. */
export function typeOf(values) {
  return ['bfloat16', 'float32', 'float64'].find((type) =>
    values.every((value) => fits(value, type)),
  );
}

/** How many numbers of `type` lie between a and b; 0 for equal ones, -0 and 0 among them. */
export function ulps(a, b, type) {
  const distance = ORDERED[type](a) - ORDERED[type](b);
  return Number(distance < 0n ? -distance : distance);
}
