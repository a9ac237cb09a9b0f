//! Arrays: lazy, fused into few kernels, differentiable.

mod array;
mod dtype;
mod emit;
mod error;
mod grad;
mod library;
mod node;
mod op;
mod plan;
mod run;
mod shape;

pub use array::{Operand, concatenate, eval, stack};
pub use error::{Error, Result, Site};
pub use grad::{Parameters, custom_vjp, grad, value_and_grad};
pub use node::Array;
