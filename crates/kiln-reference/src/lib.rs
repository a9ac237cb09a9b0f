//! What the conformance suite compares devices with: results worked out on the host in `f64` and in
//! integers, independently of Kiln's own arithmetic.
//!
//! A crate of its own, since it is optimized where the suite is not: the suite's hundreds of
//! kernels run once each, but a product of matrices has millions of terms.
//!
//! | file | holds |
//! |---|---|
//! | `sample.rs` | [`Host`] and [`Sample`]: element types as the host sees them |
//! | `rng.rs` | [`Rng`] |
//! | `accuracy/` | [`accuracy`]: errors of functions in units in the last place |
//! | `products.rs` | [`product`] and [`product_of_floats`] of matrices, [`dot`], [`add_scaled`] |

pub mod accuracy;
mod products;
mod rng;
mod sample;

pub use products::{add_scaled, dot, product, product_of_floats};
pub use rng::Rng;
pub use sample::{Host, Sample, by_rows};
