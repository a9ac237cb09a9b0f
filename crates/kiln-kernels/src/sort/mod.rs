//! Sorting the rows of a tensor.
//!
//! A row that a tile holds is sorted by one program. Longer rows are sorted by digits of 8 bits of
//! a key, from the lowest one on (Knuth, "The Art of Computer Programming" 3, 5.2.5), each pass in
//! three launches (Merrill and Grimshaw, "Revisiting sorting for GPGPU stream architectures",
//! 2010): each part of a row counts its digits, the counts of all parts before are added up, and
//! each part puts its elements where they belong. On a CPU a thread takes one element after the
//! other (`serial.rs`), also for rows that would fit a tile.

pub mod kernels;
mod key;
mod serial;

pub use key::Sortable;

use crate::sizes::{elements_per_program, launches, resident_programs, same_shape};
use kernels::{DIGIT, DIGITS};
use kiln_runtime::{Device, Error, Execution, Result, Tensor};

/// The longest row that one program sorts in a tile, and the elements of a tile of longer ones.
fn longest_in_tile(device: &Device) -> usize {
    let is_small = device.capabilities().is_simt() && device.properties().shared_memory < ROOM_OF_TILE;
    if is_small { 1024 } else { 2048 }
}

/// The shared memory of a block with which 2,048 keys of 64 bits and their indices are sorted.
const ROOM_OF_TILE: u32 = 40 << 10;

/// The longest row that is sorted in a tile on a CPU too.
const SHORT: usize = 16;

/// The most parts of a row: one program adds up the counts of all of them.
const MOST_PARTS: usize = 1024;

/// The longest tile that a device in software sorts by steps that are written out. A step is two
/// barriers or more, at each of which threads take turns there, and the time to compile a kernel
/// grows with the square of their number: 2,048 elements took Mesa's driver half a minute.
const LONGEST_WRITTEN_OUT: usize = 64;

/// Sorts the rows of tensors of any numbers but 8-bit floats. Equal elements keep their order: -0
/// is equal to 0, and all NaN are equal, and greater than all numbers.
///
/// ```
/// use kiln_kernels::Sort;
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[3.0f32, f32::NAN, 1.0, 2.0, -5.0, 2.0], [2, 3])?;
/// let (mut sorted, mut order) = (device.uninit([2, 3])?, device.uninit([2, 3])?);
/// Sort::new().run(&x, &mut sorted)?;
/// assert_eq!(sorted.to_vec()?[3..], [-5.0, 2.0, 2.0]);
/// Sort::new().descending().order(&x, &mut order)?;
/// assert_eq!(order.to_vec()?, [1, 0, 2, 0, 2, 1]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    descending: bool,
}

impl Sort {
    /// From the least element to the greatest.
    ///
    /// ```
    /// assert_eq!(kiln_kernels::Sort::new(), kiln_kernels::Sort::default());
    /// ```
    pub fn new() -> Sort {
        Sort::default()
    }

    /// From the greatest element to the least; equal ones keep their order nevertheless.
    ///
    /// ```
    /// use kiln_kernels::Sort;
    /// assert_ne!(Sort::new().descending(), Sort::new());
    /// ```
    #[must_use]
    pub fn descending(self) -> Sort {
        Sort { descending: true }
    }

    /// y = the rows of x in order.
    ///
    /// ```
    /// # use kiln_kernels::Sort;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = device.tensor(&[2u32, 3, 1], [1, 3])?;
    /// let mut y = device.uninit([1, 3])?;
    /// Sort::new().run(&x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`order`](Self::order).
    pub fn run<T: Sortable>(self, x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) -> Result<()> {
        same_shape("the result of a sort", x, y)?;
        let [rows, columns] = x.shape();
        if columns == 0 {
            return Ok(());
        }
        let device = x.device().clone();
        let mut order = device.uninit([rows, columns])?;
        self.order(x, &mut order)?;
        let block = elements_per_program(&device, size_of::<T>()).min(columns.next_power_of_two());
        for rows in launches(rows) {
            let (x, order) = (x.slice(0, rows.clone())?, order.slice(0, rows.clone())?);
            let grid = [columns.div_ceil(block) as u32, rows.len() as u32];
            kernels::pick(&x, &order, &mut y.slice(0, rows)?, block).grid(grid).launch(&device)?;
        }
        Ok(())
    }

    /// The indices that put the rows of x in order.
    ///
    /// ```
    /// # use kiln_kernels::Sort;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = device.tensor(&[2, 3, 1, 2], [1, 4])?;
    /// let mut order = device.uninit([1, 4])?;
    /// Sort::new().order(&x, &mut order)?;
    /// assert_eq!(order.to_vec()?, [2, 0, 3, 1]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ; [`Error::Value`] for rows of 2^32 elements or more;
    /// out of memory for keys and indices, 16 to 24 bytes an element, of rows of more than 2,048
    /// elements (1,024 with little shared memory; 16 on a CPU).
    pub fn order<T: Sortable>(self, x: &Tensor<T, 2>, order: &mut Tensor<i64, 2>) -> Result<()> {
        same_shape("the order of a sort", x, order)?;
        let [rows, columns] = x.shape();
        if u32::try_from(columns).is_err() {
            let (what, given) = ("the elements of a row to sort".into(), columns.to_string());
            return Err(Error::Value { what, expected: format!("at most {}", u32::MAX), given });
        }
        if columns == 0 {
            return Ok(());
        }
        for rows in launches(rows) {
            let (x, mut order) = (x.slice(0, rows.clone())?, order.slice(0, rows)?);
            let on_cpu = x.device().capabilities().execution == Execution::Simd;
            match columns {
                ..=SHORT => self.in_tiles(&x, &mut order)?,
                _ if on_cpu => serial::order(&x, &mut order, self.descending)?,
                _ if columns <= longest_in_tile(x.device()) => self.in_tiles(&x, &mut order)?,
                _ => self.by_digits(&x, &mut order)?,
            }
        }
        Ok(())
    }

    fn in_tiles<T: Sortable>(self, x: &Tensor<T, 2>, order: &mut Tensor<i64, 2>) -> Result<()> {
        let [rows, columns] = x.shape();
        let block = columns.next_power_of_two();
        let in_loops = sorts_in_loops(x.device(), block);
        kernels::order_of_rows(x, order, self.descending, block, in_loops)
            .grid([rows as u32])
            .launch(x.device())
    }

    fn by_digits<T: Sortable>(self, x: &Tensor<T, 2>, order: &mut Tensor<i64, 2>) -> Result<()> {
        let device = x.device();
        let by = Division::new(device, x.shape());
        let shape = [by.rows, by.columns];
        let (mut keys, mut indices) = (device.uninit(shape)?, device.uninit(shape)?);
        let (mut to_keys, mut to_indices) = (device.uninit(shape)?, device.uninit(shape)?);
        let mut counts = Counts::new(device, &by)?;

        counts.count(&by, x, 0, self.descending)?;
        let Counts { all, totals } = &counts;
        let (part, tile, in_loops) = (by.part, by.tile, by.in_loops);
        kernels::place_first(x, all, totals, &mut keys, &mut indices, self.descending, part, tile, in_loops)
            .grid(by.grid())
            .launch(device)?;
        let last = T::BITS.div_ceil(DIGIT) - 1;
        for shift in (1..last).map(|pass| pass * DIGIT) {
            counts.count(&by, &keys, shift, false)?;
            let Counts { all, totals } = &counts;
            kernels::place_next(
                &keys,
                &indices,
                all,
                totals,
                &mut to_keys,
                &mut to_indices,
                shift,
                part,
                tile,
                in_loops,
            )
            .grid(by.grid())
            .launch(device)?;
            std::mem::swap(&mut keys, &mut to_keys);
            std::mem::swap(&mut indices, &mut to_indices);
        }
        counts.count(&by, &keys, last * DIGIT, false)?;
        let Counts { all, totals } = &counts;
        kernels::place_last(&keys, &indices, all, totals, order, last * DIGIT, part, tile, in_loops)
            .grid(by.grid())
            .launch(device)
    }
}

/// y = the rows of x, each from the least element to the greatest: [`Sort`] without options.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[0.5f32, -1.0], [1, 2])?;
/// let mut y = device.uninit([1, 2])?;
/// kiln_kernels::sort(&x, &mut y)?;
/// assert_eq!(y.to_vec()?, [-1.0, 0.5]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// # Errors
/// As of [`Sort::order`].
pub fn sort<T: Sortable>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) -> Result<()> {
    Sort::new().run(x, y)
}

/// Whether a tile is sorted by loops: where steps that are written out would take a compiler of
/// software minutes.
fn sorts_in_loops(device: &Device, tile: usize) -> bool {
    device.capabilities().software && tile > LONGEST_WRITTEN_OUT
}

/// How rows are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    rows: usize,
    columns: usize,
    /// Parts of a row, of which a program has one.
    parts: usize,
    /// Elements of a part, a multiple of `tile`.
    part: usize,
    /// Elements that a program has at a time.
    tile: usize,
    /// Whether it sorts them in loops.
    in_loops: bool,
}

impl Division {
    /// So that the programs of all rows fill the device.
    fn new(device: &Device, [rows, columns]: [usize; 2]) -> Division {
        let tile = match device.capabilities().execution {
            Execution::Simt => longest_in_tile(device),
            Execution::Simd | Execution::Interpreted => 4096,
        };
        let in_loops = sorts_in_loops(device, tile);
        let programs = resident_programs(device).div_ceil(rows.max(1));
        let tiles = columns.div_ceil(tile);
        let per_part = tiles.div_ceil(programs.clamp(1, MOST_PARTS)).max(1);
        Division { rows, columns, parts: tiles.div_ceil(per_part), part: per_part * tile, tile, in_loops }
    }

    fn grid(&self) -> [u32; 2] {
        [self.parts as u32, self.rows as u32]
    }
}

/// How often digits occur.
struct Counts {
    /// Rows x digits x parts: first in each part, then in all before it.
    all: Tensor<u32, 3>,
    /// Rows x digits.
    totals: Tensor<u32, 2>,
}

impl Counts {
    fn new(device: &Device, by: &Division) -> Result<Counts> {
        let all = device.uninit([by.rows, DIGITS, by.parts])?;
        Ok(Counts { all, totals: device.uninit([by.rows, DIGITS])? })
    }

    /// Counts the digits from a bit on.
    fn count<T: Sortable>(
        &mut self,
        by: &Division,
        x: &Tensor<T, 2>,
        shift: u32,
        descending: bool,
    ) -> Result<()> {
        let device = x.device();
        kernels::count_digits(x, &mut self.all, shift, descending, by.part, by.tile)
            .grid(by.grid())
            .launch(device)?;
        kernels::sum_counts(&mut self.all, &mut self.totals, by.parts.next_power_of_two())
            .grid([DIGITS as u32, by.rows as u32])
            .launch(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_row_and_no_part_is_empty() {
        let device = Device::open("interp").unwrap();
        for columns in [2049, 4096, 4097, 1 << 20, 100_000_007] {
            for rows in [1, 3, 1000] {
                let by = Division::new(&device, [rows, columns]);
                assert!(by.part.is_multiple_of(by.tile) && by.parts <= MOST_PARTS, "{by:?}");
                assert!(by.part * by.parts >= columns && by.part * (by.parts - 1) < columns, "{by:?}");
            }
        }
    }
}
