//! Optimizers: stochastic gradient descent, AdamW, Lion, and how learning rates change.
//!
//! A step computes gradients, parameters and the optimizer's state together, and what else a
//! [`Mixed`](crate::nn::Mixed) policy has made of the loss. So a loop's graph is no larger than a
//! step, and what a step's kernels are does not change: learning rates are arguments.
//!
//! | file | holds |
//! |---|---|
//! | `sgd.rs`, `adamw.rs`, `lion.rs` | the optimizers |
//! | `schedule.rs` | learning rates by steps |
//! | `resume.rs` | the trait of all: a step, and what checkpoints keep |
//! | `update.rs` | what their steps have in common |

mod adamw;
mod lion;
mod resume;
mod schedule;
mod sgd;
mod update;

pub use adamw::AdamW;
pub use lion::Lion;
pub use resume::Optimizer;
pub use schedule::Schedule;
pub use sgd::Sgd;
