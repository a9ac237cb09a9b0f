//! The lowering from tiles to threads, by what the lowered kernels do: run on the interpreter with
//! its sanitizer, against the kernels they come from.

mod attention;
mod flow;
mod fuzz;
mod harness;
mod kernels;
mod legalize;
mod matrix_units;
mod memory;
mod narrow_products;
mod reductions;
mod refusals;
mod scalars;
mod shapes;
mod shared_tiles;
mod warp_specialize;
mod warp_widths;
mod warpgroups;
