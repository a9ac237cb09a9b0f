//! The texts of device asserts and prints.

use half::{bf16, f16};
use kiln_ir::{Literal, Scalar};

/// A text with each `{}` replaced by the next value, as Rust's `Display` writes its type. A `{}`
/// without a value is kept.
///
/// ```
/// use kiln_backend::fill_message;
/// use kiln_ir::Literal;
/// let values = [Literal::index(-3), Literal::f32(2.0)];
/// assert_eq!(fill_message("{} of {}, {}", values), "-3 of 2, {}");
/// ```
pub fn fill_message(text: &str, values: impl IntoIterator<Item = Literal>) -> String {
    let mut values = values.into_iter();
    let mut parts = text.split("{}");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        filled.push_str(&values.next().map_or_else(|| "{}".to_owned(), display));
        filled.push_str(part);
    }
    filled
}

fn display(value: Literal) -> String {
    let bits = value.bits();
    match value.elem() {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::F16 => f16::from_bits(bits as u16).to_string(),
        Scalar::BF16 => bf16::from_bits(bits as u16).to_string(),
        Scalar::F32 => f32::from_bits(bits as u32).to_string(),
        Scalar::F64 => f64::from_bits(bits).to_string(),
        Scalar::E4M3 | Scalar::E5M2 => (value.as_f64() as f32).to_string(),
        _ => value.as_i128().to_string(),
    }
}
