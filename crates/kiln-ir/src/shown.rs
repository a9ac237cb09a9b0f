//! Elements of an array as text, as NumPy prints them.

use std::fmt::{self, Display, Formatter, Write};

/// A part of an array, ready to be written: the elements in brackets, an axis each, of one width.
///
/// ```
/// use kiln_ir::Shown;
/// let whole = Shown::of(&[2, 2], &mut |at| format!("{}", at[0] * 10 + at[1]));
/// assert_eq!(whole.to_string(), "[[ 0,  1],\n [10, 11]]");
/// let part = Shown::of(&[2000], &mut |at| at[0].to_string());
/// assert_eq!(part.to_string(), "[   0,    1,    2, ..., 1997, 1998, 1999]");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Shown {
    /// An element.
    Number(String),
    /// The parts of an axis.
    Axis(Vec<Shown>),
    /// Elements that are left out.
    Gap,
}

impl Shown {
    /// Arrays of more elements than this are shown in part, as by NumPy.
    pub const WHOLE: usize = 1000;
    /// So many elements are shown of either end of an axis then.
    pub const EDGE: usize = 3;

    /// An array of these extents, whose elements a function gives by their indices: all of up to
    /// 1000, else the first and the last three of each axis.
    pub fn of(extents: &[usize], element: &mut dyn FnMut(&[usize]) -> String) -> Shown {
        let whole = extents.iter().product::<usize>() <= Shown::WHOLE;
        Shown::axis(extents, whole, &mut Vec::new(), element)
    }

    fn axis(
        extents: &[usize],
        whole: bool,
        at: &mut Vec<usize>,
        element: &mut dyn FnMut(&[usize]) -> String,
    ) -> Shown {
        let Some((&extent, inner)) = extents.split_first() else { return Shown::Number(element(at)) };
        let mut part = |range: std::ops::Range<usize>, parts: &mut Vec<Shown>| {
            for i in range {
                at.push(i);
                parts.push(Shown::axis(inner, whole, at, element));
                at.pop();
            }
        };
        let mut parts = Vec::new();
        if whole || extent <= 2 * Shown::EDGE {
            part(0..extent, &mut parts);
        } else {
            part(0..Shown::EDGE, &mut parts);
            parts.push(Shown::Gap);
            part(extent - Shown::EDGE..extent, &mut parts);
        }
        Shown::Axis(parts)
    }

    /// Characters of the longest number.
    fn width(&self) -> usize {
        match self {
            Shown::Number(text) => text.len(),
            Shown::Axis(parts) => parts.iter().map(Shown::width).max().unwrap_or(0),
            Shown::Gap => 0,
        }
    }

    /// Axes below this one.
    fn depth(&self) -> usize {
        match self {
            Shown::Axis(parts) => 1 + parts.first().map_or(0, Shown::depth),
            Shown::Number(_) | Shown::Gap => 0,
        }
    }

    /// Writes with numbers of one width. `indent` axes are open around it.
    fn write(&self, indent: usize, width: usize, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Number(text) => write!(f, "{text:>width$}"),
            Shown::Gap => f.write_str("..."),
            Shown::Axis(parts) => {
                // Matrices stand apart by one line more than rows, and so on.
                let lines = self.depth() - 1;
                f.write_char('[')?;
                for (number, part) in parts.iter().enumerate() {
                    match (number, lines) {
                        (0, _) => {}
                        (_, 0) => f.write_str(", ")?,
                        _ => write!(f, ",{}{:indent$}", "\n".repeat(lines), "", indent = indent + 1)?,
                    }
                    part.write(indent + 1, width, f)?;
                }
                f.write_char(']')
            }
        }
    }
}

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write(0, self.width(), f)
    }
}
