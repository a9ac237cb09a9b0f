//! What can be done with arrays. Each file adds methods to [`Array`](crate::Array).
//!
//! | file | holds |
//! |---|---|
//! | `create.rs` | arrays from elements, of one number, of numbers in order |
//! | `arithmetic.rs` | operators, and operations on two arrays |
//! | `functions.rs`, `gelu.rs` | functions of each element |
//! | `hyperbolic.rs` | inverse hyperbolic functions, cube roots, hypotenuses |
//! | `logic.rs` | comparisons, `where` |
//! | `views.rs` | other shapes, parts, other orders of axes |
//! | `padding.rs` | elements put around |
//! | `arrange.rs` | elements moved, repeated, triangles and diagonals |
//! | `reduce.rs` | sums, means, maxima, and where those are |
//! | `product.rs`, `fp8.rs` | products of matrices, and those through 8-bit floats |
//! | `join.rs` | concatenating, stacking, splitting |
//! | `index.rs` | elements by indices |
//! | `scatter.rs` | elements put, or added, at indices |
//! | `mask.rs` | elements by masks |
//! | `scan.rs` | running sums, products and extremes |
//! | `sort.rs` | elements in order, and the greatest ones |
//! | `quantile.rs` | medians and other quantiles |
//! | `bins.rs` | places in sorted elements, and counting |
//! | `einsum.rs` | sums of products by named axes |
//! | `attention.rs`, `decoding.rs` | attention of sequences to themselves, of a query to a cache |
//! | `rows.rs` | softmax, norms |
//! | `rotary.rs` | rotary position embedding |
//! | `windows.rs` | windows, convolutions, pooling |
//! | `convolution.rs` | other convolutions: along one axis, in groups, transposed |
//! | `fourier.rs` | Fourier transforms |
//! | `matrices.rs` | linear algebra of small matrices |
//! | `spectral.rs` | eigenvalues and singular values |
//! | `least_squares.rs` | pseudo-inverses, norms, logarithms of determinants |
//! | `read.rs` | computing, reading, printing |

pub(crate) mod arithmetic;
mod arrange;
pub(crate) mod attention;
mod bins;
mod convolution;
pub(crate) mod create;
pub(crate) mod decoding;
mod einsum;
mod extent;
mod fourier;
mod fp8;
pub(crate) mod functions;
mod gelu;
mod hyperbolic;
mod index;
mod join;
mod least_squares;
mod logic;
mod mask;
mod matrices;
mod padding;
pub(crate) mod product;
mod quantile;
mod read;
pub(crate) mod reduce;
pub(crate) mod rotary;
mod rows;
pub(crate) mod scan;
pub(crate) mod scatter;
mod slice_range;
mod sort;
mod spectral;
mod tall;
mod views;
pub(crate) mod windows;

pub use arithmetic::Operand;
pub use arrange::meshgrid;
pub use bins::Side;
pub use convolution::Convolution;
pub use einsum::einsum;
pub use extent::Extent;
pub(crate) use join::stack_at;
pub use join::{concatenate, stack};
pub use least_squares::MatrixNorm;
pub use padding::Padding;
pub use read::eval;
pub use rotary::Pairs;
pub use slice_range::SliceRange;
