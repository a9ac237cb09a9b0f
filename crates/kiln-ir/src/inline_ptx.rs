//! The text of instructions that a kernel for NVIDIA GPUs contains as they are, and what can be
//! said of it without an assembler.
//!
//! Operands are `%0`, `%1`, …, as in CUDA's `asm`: the result first, if there is one. Their types
//! follow from the values; each is a register of its width.

use crate::types::Scalar;

/// Statements that leave the kernel or its place in it.
const LEAVING: [&str; 4] = ["ret", "exit", "call", "brkpt"];

/// A piece of such a text.
///
/// ```
/// use kiln_ir::{PtxPart, ptx_parts};
/// let names = ["r7", "r8"];
/// let text: String = ptx_parts("not.b32 %0, %1;")
///     .map(|part| match part {
///         PtxPart::Text(text) => text,
///         PtxPart::Operand(number) => names[number],
///     })
///     .collect();
/// assert_eq!(text, "not.b32 r7, r8;");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PtxPart<'a> {
    /// To be taken over.
    Text(&'a str),
    /// An operand.
    Operand(usize),
}

/// The pieces of a text.
///
/// ```
/// use kiln_ir::{PtxPart, ptx_parts};
/// let parts: Vec<_> = ptx_parts("add.u32 %0, %12, %laneid;").collect();
/// let expected = [
///     PtxPart::Text("add.u32 "), PtxPart::Operand(0), PtxPart::Text(", "), PtxPart::Operand(12),
///     PtxPart::Text(", "), PtxPart::Text("%laneid;"),
/// ];
/// assert_eq!(parts, expected);
/// ```
pub fn ptx_parts(text: &str) -> impl Iterator<Item = PtxPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(after) = rest.strip_prefix('%') {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            if let Ok(number) = after[..digits].parse() {
                rest = &after[digits..];
                return Some(PtxPart::Operand(number));
            }
        }
        let next = rest[1..].find('%').map_or(rest.len(), |at| at + 1);
        let (part, others) = rest.split_at(next);
        rest = others;
        Some(PtxPart::Text(part))
    })
}

/// Why a text cannot be part of a kernel: what is wrong with it, if anything is.
///
/// `elems` are the types of its operands, of which the first is the result if there is one.
///
/// ```
/// use kiln_ir::{Scalar, check_ptx};
/// let words = [Scalar::U32; 3];
/// assert_eq!(check_ptx("add.u32 %0, %1, %2;", &words, true), Ok(()));
/// assert!(check_ptx("add.u32 %0, %1, %3;", &words, true).unwrap_err().contains("`%3`"));
/// assert!(check_ptx("ret;", &[], false).unwrap_err().contains("`ret`"));
/// ```
///
/// # Errors
/// A sentence in the words of the user.
pub fn check_ptx(text: &str, elems: &[Scalar], has_result: bool) -> Result<(), String> {
    if let Some(found) = text.chars().find(|&c| !(c.is_ascii_graphic() || " \n\t".contains(c))) {
        return Err(format!("its text has the character {found:?}: PTX is ASCII"));
    }
    for (found, why) in [
        ("$", "such names are the compiler's"),
        ("//", "it is a comment, which would hide what follows"),
        ("/*", "it is a comment, which would hide what follows"),
        ("\"", "texts have no place here"),
    ] {
        if text.contains(found) {
            return Err(format!("its text has `{found}`: {why}"));
        }
    }
    text.split(';').try_for_each(vectors)?;
    if !text.trim_end().ends_with(';') {
        return Err("its text does not end with `;`".into());
    }
    let narrow = elems.iter().find(|elem| elem.bytes() == 1 && **elem != Scalar::Bool);
    if let Some(elem) = narrow {
        return Err(format!(
            "it has an operand of {elem}, for which PTX has no register: `cast` it to 16 bits"
        ));
    }
    for part in ptx_parts(text) {
        match part {
            PtxPart::Operand(number) if number >= elems.len() => {
                return Err(format!("its text names `%{number}`, and it has {} operands", elems.len()));
            }
            PtxPart::Operand(_) => {}
            PtxPart::Text(text) => register(text)?,
        }
    }
    if has_result && !ptx_parts(text).any(|part| part == PtxPart::Operand(0)) {
        return Err("its text does not name `%0`, the result".into());
    }
    text.split(';').try_for_each(statement)
}

/// A text that begins with `%` begins with no register of the compiler's: `%p`, `%h`, `%r` or `%d`
/// and a number.
fn register(text: &str) -> Result<(), String> {
    let Some(name) = text.strip_prefix('%') else { return Ok(()) };
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
    let name = &name[..end];
    let number = name.strip_prefix(['p', 'h', 'r', 'd']).unwrap_or("");
    if name.is_empty() || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!(
            "its text names `%{name}`: operands are numbers, and its own registers have names without `%`"
        ));
    }
    Ok(())
}

/// A statement has braces around operands alone, which are a vector: others would begin a scope, or
/// end the one that it is in.
fn vectors(statement: &str) -> Result<(), String> {
    let mut rest = statement;
    while let Some(at) = rest.find(['{', '}']) {
        let brace = &rest[at..=at];
        let operands = rest[at..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let is_first = statement.len() == rest.len() && rest[..at].trim().is_empty();
        match operands {
            Some((operands, after)) if !is_first && !operands.contains('{') => rest = after,
            _ => {
                let why = "braces stand around the operands of a vector alone, as in `{%0, %1}`";
                return Err(format!("its text has `{brace}`: {why}"));
            }
        }
    }
    Ok(())
}

/// A statement, of which the text may be empty, stays in its place.
fn statement(text: &str) -> Result<(), String> {
    let mut rest = text.trim();
    while let Some((label, after)) = rest.split_once(':').filter(|(label, _)| is_name(label.trim())) {
        _ = label;
        rest = after.trim();
    }
    if rest.starts_with('@') {
        rest = rest.split_once(char::is_whitespace).map_or("", |(_, after)| after.trim());
    }
    let word = rest.split(char::is_whitespace).next().unwrap_or("");
    if word.starts_with('.') && word != ".reg" {
        return Err(format!(
            "its text has the directive `{word}`: registers alone are declared here, by `.reg`"
        ));
    }
    let name = word.split('.').next().unwrap_or("");
    if LEAVING.contains(&name) {
        return Err(format!("its text has `{name}`, which leaves the code around it"));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_a_kernel_is_found() {
        let words = [Scalar::U32, Scalar::U32, Scalar::Bool];
        let check = |text| check_ptx(text, &words, true);
        for fine in [
            "add.u32 %0, %1, 1;",
            ".reg .u32 t;\n\tmov.u32 t, %laneid;\n\tadd.u32 %0, t, %1;",
            "mov.u32 %0, 0;\nloop: add.u32 %0, %0, 1;\n@%2 bra loop;",
            "@%2 mov.u32 %0, %1; @!%2 mov.u32 %0, %clock;",
            ".reg .b64 d; mov.b64 d, {%1, %1}; mov.b64 {%0, _}, d;",
            ".reg .u32 t; mov.b64 {%0, t}, {t,\n%1};",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (text, part) in [
            ("add.u32 %0, %1, 1", "does not end with `;`"),
            ("{ add.u32 %0, %1, 1; }", "`{`"),
            ("mov.u32 %0, 1; } { mov.u32 %0, 2;", "`}`"),
            ("mov.u32 %0, 1; {} mov.u32 %0, 2;", "`{`"),
            ("mov.b64 %0, {%1, {%1}};", "`{`"),
            ("mov.b64 %0, {%1, %1;", "`{`"),
            ("mov.u32 %0, %1 };", "`}`"),
            ("add.u32 %0, %1, %9;", "`%9`"),
            ("add.u32 %1, %1, 1;", "`%0`"),
            ("mov.u32 %0, %r1;", "`%r1`"),
            ("mov.u32 %0, % 1;", "`%`"),
            ("mov.u32 %0, 1; // and more;", "`//`"),
            ("mov.u32 %0, 1; .global .u32 x;", "`.global`"),
            ("mov.u32 %0, 1; @%2 ret;", "`ret`"),
            ("mov.u32 %0, 1; x: exit;", "`exit`"),
            ("mov.u32 %0, \u{e9};", "ASCII"),
            ("bra $L1; mov.u32 %0, 1;", "`$`"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(check_ptx("mov.b16 %0, %1;", &[Scalar::U16, Scalar::I8], true).unwrap_err().contains("i8"));
    }
}
