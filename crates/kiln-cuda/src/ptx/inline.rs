//! PTX that the user wrote.
//!
//! It stands in a scope of its own, behind a comment with the user's line, which the error of an
//! assembler that refuses it leads to.

use super::writer::{Writer, broken};
use kiln_backend::Result;
use kiln_ir::{Message, OpData, Operand, PtxPart, ptx_parts};
use std::fmt::Write as _;

/// What stands before the user's line.
const PLACE: &str = "\t// ptx of ";

impl Writer<'_> {
    pub(super) fn inline(&mut self, op: &OpData, message: Message) -> Result<()> {
        let kernel = self.kernel;
        let text = kernel.messages.get(message.0 as usize);
        let text = text.ok_or_else(|| broken("`inline_ptx` without a text"))?;
        let inputs = op.named(Operand::Input).iter().map(|&v| self.get(v)).collect::<Result<Vec<_>>>()?;
        let result = op.results.first().map(|&result| self.define(result));
        let operands: Vec<_> = result.into_iter().chain(inputs).collect();
        // Which version has the user's instructions is not known: the newest of the driver's.
        self.version = (u32::MAX, 0);
        let _ = writeln!(self.text, "\t{{\n{PLACE}{}", kernel.describe(op.loc));
        for part in ptx_parts(text) {
            let _ = match part {
                PtxPart::Text(text) => write!(self.text, "{text}"),
                PtxPart::Operand(number) => match operands.get(number) {
                    Some(register) => write!(self.text, "{register}"),
                    None => return Err(broken(format!("`inline_ptx` without an operand {number}"))),
                },
            };
        }
        self.text.push_str("\n\t}\n");
        Ok(())
    }
}

/// The user's line of the PTX at a line of a module's text, from 1, if it is the user's.
pub(crate) fn place_of(text: &str, line: u32) -> Option<&str> {
    let lines: Vec<&str> = text.lines().take(line as usize).collect();
    let before = lines.iter().rev().skip(1).take_while(|line| **line != "\t}");
    let mut places = before.filter_map(|line| line.strip_prefix(PLACE));
    places.next()
}

#[cfg(test)]
mod tests {
    use super::place_of;

    #[test]
    fn a_line_of_the_users_text_leads_to_the_users_line() {
        let text =
            "\tmov.u32 %r1, 0;\n\t{\n\t// ptx of src/main.rs:7:5\nadd.u32 %r1, %r1;\nnop;\n\t}\n\tret;\n";
        let places: Vec<_> = (1..=7).map(|line| place_of(text, line)).collect();
        let place = Some("src/main.rs:7:5");
        assert_eq!(places, [None, None, None, place, place, place, None]);
    }
}
