//! Tests of recall: the same result whatever is indexed, blocks that nothing breaks out of, and the gate.

mod block;
mod gate;
mod logs;
mod search;
mod select;
mod stored;
