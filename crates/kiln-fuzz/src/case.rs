//! Launches as text: a kernel with its grid and its arguments.
//!
//! ```text
//! ; @grid 2 1 1
//! ; @arg f32[2, 3]: 1 2 3 4 5 6
//! ; @arg f32[4]: fill 7
//! ; @arg i32[4]: iota
//! ; @arg i64: 5
//! kernel @k(…
//! ```
//!
//! The arguments stand in the order of the parameters; the grid is 1 by 1 by 1 unless it is given.

use kiln_ir::{IntFact, Kernel, Literal, Scalar, Type, parse};
use std::fmt;

/// An argument of a launch.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// A dense row-major view.
    View {
        /// The extents, outermost first.
        extents: Vec<u32>,
        /// The elements, all of one type.
        data: Vec<Literal>,
    },
    /// A scalar.
    Scalar(Literal),
}

/// A kernel with everything a launch needs.
///
/// ```
/// let text = "; @grid 2 1 1\n; @arg i32[2]: 7 -1\n\
///             kernel @k(%x: mut view<i32, 1, global>) tile {\n}\n";
/// let case = kiln_fuzz::Case::read(text)?;
/// assert_eq!((case.grid, case.arguments.len()), ([2, 1, 1], 1));
/// assert_eq!(case.to_string(), text);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Case {
    /// The kernel.
    pub kernel: Kernel,
    /// Programs on x, y and z.
    pub grid: [u32; 3],
    /// The arguments, in the order of the parameters.
    pub arguments: Vec<Argument>,
}

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn read(text: &str) -> Result<Case, String> {
        let kernel = parse(text).map_err(|e| e.to_string())?;
        let directives = text.lines().filter_map(|line| line.strip_prefix("; @"));
        Case::new(kernel, directives)
    }

    /// The case of a kernel and directives: the words behind each `; @`.
    ///
    /// # Errors
    /// A directive cannot be read or does not fit the kernel.
    pub fn new<'t>(kernel: Kernel, directives: impl Iterator<Item = &'t str>) -> Result<Case, String> {
        let mut case = Case { kernel, grid: [1; 3], arguments: Vec::new() };
        for directive in directives {
            match directive.split_once(' ') {
                Some(("grid", extents)) => case.grid = grid(extents)?,
                Some(("arg", text)) => case.arguments.push(argument(text)?),
                _ => return Err(format!("no directive `{directive}`")),
            }
        }
        case.fits()?;
        Ok(case)
    }

    /// The same launch of another kernel.
    #[must_use]
    pub fn with(&self, kernel: Kernel) -> Case {
        Case { kernel, ..self.clone() }
    }

    fn fits(&self) -> Result<(), String> {
        let params = &self.kernel.params;
        if params.len() != self.arguments.len() {
            return Err(format!("{} arguments for {} parameters", self.arguments.len(), params.len()));
        }
        for (param, argument) in params.iter().zip(&self.arguments) {
            let fits = match (argument, &param.ty) {
                (Argument::Scalar(literal), Type::Tile(tile)) => literal.elem() == tile.elem,
                (Argument::View { extents, data }, Type::View(view)) => {
                    extents.len() == view.rank as usize && data.iter().all(|l| l.elem() == view.elem)
                }
                _ => false,
            };
            if !fits {
                return Err(format!("the argument for %{} is not a {}", param.name, param.ty));
            }
        }
        Ok(())
    }

    /// Whether the facts that the kernel's parameters declare hold of the arguments.
    ///
    /// # Errors
    /// The parameter and the fact that does not hold. Such a launch is undefined on every device.
    pub fn check_facts(&self) -> Result<(), String> {
        for (param, argument) in self.kernel.params.iter().zip(&self.arguments) {
            let wrong = |what: String| Err(format!("%{}: {what}", param.name));
            match argument {
                Argument::Scalar(literal) if literal.elem().is_int() => {
                    // Facts are about the bits as a signed number.
                    let value = i128::from(literal.as_i128() as i64);
                    if !holds(&param.facts.value, value) {
                        return wrong(format!("the facts of the value do not hold of {value}"));
                    }
                }
                Argument::Scalar(_) => {}
                Argument::View { extents, data } => {
                    let strides = strides(extents);
                    for (what, facts, values) in [
                        ("extent", &param.facts.extents, extents.iter().map(|&e| i128::from(e)).collect()),
                        ("stride", &param.facts.strides, strides.iter().map(|&s| i128::from(s)).collect()),
                    ] {
                        let values: Vec<i128> = values;
                        let broken = facts.iter().zip(&values).position(|(fact, &v)| !holds(fact, v));
                        if let Some(axis) = broken {
                            return wrong(format!(
                                "the facts of {what} {axis} do not hold of {}",
                                values[axis]
                            ));
                        }
                    }
                    let bytes = data.first().map_or(0, |l| l.elem().bytes() as usize * data.len());
                    if param.facts.span_fits_i32 && i32::try_from(bytes).is_err() {
                        return wrong(format!("a span of {bytes} bytes"));
                    }
                    // Allocations of every device begin at multiples of 256 bytes.
                    if param.facts.align > 256 {
                        return wrong(format!("an alignment of {} bytes", param.facts.align));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether a fact is true of a number.
fn holds(fact: &IntFact, value: i128) -> bool {
    value % i128::from(fact.divisor.max(1)) == 0
        && fact.equals.is_none_or(|equals| i128::from(equals) == value)
        && (!fact.fits_i32 || (0..=i128::from(i32::MAX)).contains(&value))
}

/// The strides of a dense row-major view.
fn strides(extents: &[u32]) -> Vec<u64> {
    (0..extents.len()).map(|i| extents[i + 1..].iter().map(|&e| u64::from(e)).product()).collect()
}

/// The text that [`Case::read`] reads.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.grid;
        writeln!(f, "; @grid {x} {y} {z}")?;
        for (argument, param) in self.arguments.iter().zip(&self.kernel.params) {
            let elem = param.ty.elem();
            match argument {
                Argument::Scalar(literal) => writeln!(f, "; @arg {elem}: {literal}")?,
                Argument::View { extents, data } => {
                    let extents: Vec<String> = extents.iter().map(u32::to_string).collect();
                    write!(f, "; @arg {elem}[{}]:", extents.join(", "))?;
                    data.iter().try_for_each(|literal| write!(f, " {literal}"))?;
                    writeln!(f)?;
                }
            }
        }
        write!(f, "{}", self.kernel)
    }
}

fn grid(text: &str) -> Result<[u32; 3], String> {
    let extents: Option<Vec<u32>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
    extents.and_then(|e| e.try_into().ok()).ok_or_else(|| format!("`{text}` is not a grid"))
}

/// `TYPE: VALUES`.
fn argument(text: &str) -> Result<Argument, String> {
    let bad = || format!("`{text}` is not an argument");
    let (ty, values) = text.split_once(':').ok_or_else(bad)?;
    let (elem, extents) = match ty.split_once('[') {
        None => (ty, None),
        Some((elem, rest)) => {
            let inner = rest.trim_end().strip_suffix(']').ok_or_else(bad)?;
            let words = inner.split(',').map(str::trim).filter(|w| !w.is_empty());
            let extents: Option<Vec<u32>> = words.map(|w| w.parse().ok()).collect();
            (elem, Some(extents.ok_or_else(bad)?))
        }
    };
    let elem = Scalar::from_name(elem.trim()).ok_or_else(bad)?;
    let words: Vec<&str> = values.split_whitespace().collect();
    let len = extents.iter().flatten().map(|&e| e as usize).product();
    let data = match words[..] {
        ["iota"] => (0..len).map(|i| Literal::wrapping(elem, i as i128)).collect(),
        ["fill", value] => vec![literal(value, elem)?; len],
        _ => words.iter().map(|w| literal(w, elem)).collect::<Result<Vec<_>, _>>()?,
    };
    if data.len() != len {
        return Err(format!("{} values for {len} elements", data.len()));
    }
    Ok(match extents {
        None => Argument::Scalar(data[0]),
        Some(extents) => Argument::View { extents, data },
    })
}

/// A literal, read as the text format reads a constant.
fn literal(text: &str, elem: Scalar) -> Result<Literal, String> {
    let text = if elem.is_float() && text.parse::<i64>().is_ok() { format!("{text}.0") } else { text.into() };
    let kernel = parse(&format!("kernel @k() tile {{ %0 = const {text} : {elem} }}"));
    let value =
        kernel.ok().and_then(|k| k.block(k.body).ops.first().and_then(|&op| k.as_const(k.result(op))));
    value.ok_or_else(|| format!("`{text}` is not a constant of type {elem}"))
}
