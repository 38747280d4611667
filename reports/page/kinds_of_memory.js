// Made of harness/record/memory_kind.h by kinds.py.
export const KINDS = [
  'parameters',
  'buffers',
  'gradients',
  'optimizer state',
  'cuBLAS workspaces',
  'persistent buffers',
  'inputs',
  'outputs',
  'activations',
  'gathered activations',
  'receive buffers',
  'sharding buffers',
  'gathered parameters',
  'gathered frozen parameters',
  'autocast copies',
  'backward',
  'optimizer temporaries',
  'other',
  'from before',
  'freed, held for another stream'
];
