//! Asserts and prints.

use crate::machine::Machine;
use crate::mask::Mask;
use crate::register::Register;
use crate::trap::Trap;
use kiln_backend::FaultKind;
use kiln_ir::{Message, OpData, Value};

impl Machine<'_> {
    /// Faults in the first active thread, or anywhere in a tile, where the condition is false.
    pub fn assert(&self, data: &OpData, message: Message, mask: &Mask) -> Result<(), Trap> {
        let condition = data.operands.first().copied();
        let condition = condition.ok_or_else(|| Trap::Bug("an assert of nothing".into()))?;
        let holds = bool::of(self.data(condition))?;
        let values = data.shown();
        let failed = if self.is_tile(condition) {
            self.need_all("an assert on a tile", mask)?;
            holds.contains(&false).then_some((None, mask.first().unwrap_or(0)))
        } else {
            mask.lanes().find(|&lane| !holds[lane]).map(|lane| (Some(lane), lane))
        };
        match failed {
            None => Ok(()),
            Some((lane, values_at)) => {
                let message = self.text(message, values, values_at);
                Err(Trap::Fault { kind: FaultKind::Assert { message }, lane })
            }
        }
    }

    /// Prints once for each active thread: once for a program over tiles.
    pub fn print(&self, data: &OpData, message: Message, mask: &Mask) -> Result<(), Trap> {
        for lane in mask.lanes() {
            for line in self.text(message, &data.operands, lane).lines() {
                self.prints.line(line);
            }
        }
        Ok(())
    }

    /// The text with `{}` replaced by one thread's values in turn.
    fn text(&self, message: Message, values: &[Value], lane: usize) -> String {
        let template = self.kernel.messages.get(message.0 as usize).map_or("", String::as_str);
        let mut parts = template.split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        let mut values = values.iter();
        for part in parts {
            match values.next() {
                Some(&value) => text += &self.data(value).display(if self.is_tile(value) { 0 } else { lane }),
                None => text += "{}",
            }
            text += part;
        }
        text
    }
}
