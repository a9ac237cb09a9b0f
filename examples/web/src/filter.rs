//! The image filter: a kernel over threads.

use kiln::prelude::*;

/// The low byte of a word.
const BYTE: u32 = 0xff;
/// The byte of a pixel that says how opaque it is.
const ALPHA: u32 = 0xff00_0000;

/// Each pixel becomes the weighted sum of the 3 x 3 pixels around it, a channel at a time; what is
/// beyond the border is as the pixel at the border. Pixels are words of red, green, blue and alpha,
/// red lowest. A thread makes a pixel.
#[kernel]
pub fn convolve(image: &Tensor<u32, 2>, weights: &Tensor<f32, 1>, out: &mut Tensor<u32, 2>) {
    let at = thread_index_2d();
    let (row, column) = (at.axis(0), at.axis(1));
    let (rows, columns) = (image.extent(0), image.extent(1));
    if row < rows && column < columns {
        let mut pixel = image.get((row, column)) & ALPHA;
        // Loops over host numbers are unrolled while the kernel is traced.
        for channel in 0..3 {
            let shift = 8 * channel as u32;
            let mut sum: Val<f32> = val(0.0);
            for (number, (down, right)) in neighbors().enumerate() {
                let y = (row + down).clamp(0, rows - 1);
                let x = (column + right).clamp(0, columns - 1);
                let part = (image.get((y, x)) >> shift) & BYTE;
                sum += weights.get(number as i64) * part.cast::<f32>();
            }
            pixel |= (sum + 0.5).floor().clamp(0.0, 255.0).cast::<u32>() << shift;
        }
        out.set(at, pixel);
    }
}

/// The places around a pixel, row after row.
fn neighbors() -> impl Iterator<Item = (i64, i64)> {
    (-1..=1).flat_map(|down| (-1..=1).map(move |right| (down, right)))
}
