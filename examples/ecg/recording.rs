//! The recording.

use flate2::read::GzDecoder;
use std::io::Read;

/// Samples a second.
pub const RATE: f64 = 360.0;

/// All samples, in millivolts; see `data/LICENSE.md` for the format.
pub fn samples() -> std::io::Result<Vec<f32>> {
    let mut bytes = Vec::new();
    GzDecoder::new(&include_bytes!("data/mitdb-208.i16.gz")[..]).read_to_end(&mut bytes)?;
    let mut level = 0i32;
    let next = |pair: &[u8; 2]| {
        level += i32::from(i16::from_le_bytes(*pair));
        level as f32 / 200.0
    };
    Ok(bytes.as_chunks::<2>().0.iter().map(next).collect())
}
