//! The header of a `.npy` file: magic, version, length, and a Python dictionary of three entries
//! (NumPy Enhancement Proposal 1, and `numpy.lib.format`).

use kiln_ir::Scalar;

/// What every file begins with.
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Data begin at a multiple of so many bytes, as NumPy has it since 1.14.
const ALIGN: usize = 64;
/// No header is longer: NumPy itself refuses longer ones by default.
const MAX_LENGTH: usize = 10_000;

/// What a file says of its array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// The type of its elements, as NumPy writes it: `<f4`.
    pub(crate) descr: String,
    /// Whether the first axis is the densest.
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<usize>,
}

/// The length of what precedes the dictionary, and the dictionary's; from the first 12 bytes of a
/// file.
pub(crate) fn lengths(start: &[u8; 12]) -> Result<(usize, usize), String> {
    if !start.starts_with(MAGIC) {
        return Err("this is no .npy file: it does not begin with NumPy's magic bytes".into());
    }
    let (before, length) = match start[6] {
        1 => (10, usize::from(u16::from_le_bytes([start[8], start[9]]))),
        2 | 3 => (12, u32::from_le_bytes([start[8], start[9], start[10], start[11]]) as usize),
        version => return Err(format!("version {version} of the .npy format is not known; 1 to 3 are")),
    };
    match length <= MAX_LENGTH {
        true => Ok((before, length)),
        false => Err(format!("its header of {length} bytes is longer than {MAX_LENGTH}")),
    }
}

impl Header {
    /// Reads the dictionary.
    pub(crate) fn parse(text: &str) -> Result<Header, String> {
        let mut reader = Reader { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        reader.expect("{")?;
        while !reader.takes("}") {
            let key = reader.string()?;
            reader.expect(":")?;
            match key {
                "descr" => descr = Some(reader.descr()?),
                "fortran_order" => fortran_order = Some(reader.boolean()?),
                "shape" => shape = Some(reader.shape()?),
                _ => return Err(format!("its header has an entry `{key}`, which the format has not")),
            }
            if !reader.takes(",") {
                reader.expect("}")?;
                break;
            }
        }
        let missing = |key: &str| format!("its header has no entry `{key}`");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// The bytes of a file up to its data.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let extents: String = self.shape.iter().map(|extent| format!("{extent}, ")).collect();
        // A tuple of one has a comma, one of two or more has none at its end.
        let extents = match self.shape.len() {
            1 => extents.trim_end(),
            _ => extents.trim_end_matches(", "),
        };
        let order = if self.fortran_order { "True" } else { "False" };
        let text = format!("{{'descr': '{}', 'fortran_order': {order}, 'shape': ({extents}), }}", self.descr);
        // Of 16 axes with 20 digits each there are fewer bytes than two can count.
        let before = MAGIC.len() + 4;
        let length = (before + text.len() + 1).next_multiple_of(ALIGN) - before;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((length as u16).to_le_bytes());
        bytes.extend(format!("{text:<width$}\n", width = length - 1).bytes());
        bytes
    }
}

/// Reads a dictionary from its front.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Passes a token if it comes next.
    fn takes(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.takes(token) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{token}`"))),
        }
    }

    fn unexpected(&self, expected: &str) -> String {
        let found: String = self.rest.trim().chars().take(16).collect();
        format!(
            "its header is damaged: expected {expected}, found `{}`",
            found.replace(char::is_control, " ")
        )
    }

    fn string(&mut self) -> Result<&'a str, String> {
        for quote in ["'", "\""] {
            if self.takes(quote) {
                let Some((string, rest)) = self.rest.split_once(quote) else {
                    return Err("its header is damaged: a string does not end".into());
                };
                self.rest = rest;
                return Ok(string);
            }
        }
        Err(self.unexpected("a string"))
    }

    /// The element type: a string, but a list for records.
    fn descr(&mut self) -> Result<String, String> {
        if self.rest.trim_start().starts_with('[') {
            return Err("its elements are records; save each field as an array of its own".into());
        }
        self.string().map(str::to_owned)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        if self.takes("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false).map_err(|_| self.unexpected("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        self.expect("(")?;
        let mut shape = Vec::new();
        while !self.takes(")") {
            self.rest = self.rest.trim_start();
            let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = self.rest.split_at(digits);
            shape.push(number.parse().map_err(|_| self.unexpected("an extent"))?);
            self.rest = rest;
            if !self.takes(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(shape)
    }
}

/// The element types that NumPy has too, and how it writes them.
const TYPES: [(Scalar, &str); 12] = [
    (Scalar::Bool, "|b1"),
    (Scalar::I8, "|i1"),
    (Scalar::U8, "|u1"),
    (Scalar::I16, "<i2"),
    (Scalar::U16, "<u2"),
    (Scalar::I32, "<i4"),
    (Scalar::U32, "<u4"),
    (Scalar::I64, "<i8"),
    (Scalar::U64, "<u8"),
    (Scalar::F16, "<f2"),
    (Scalar::F32, "<f4"),
    (Scalar::F64, "<f8"),
];

/// How NumPy writes an element type, if it has it.
pub(crate) fn descr_of(elem: Scalar) -> Option<&'static str> {
    TYPES.iter().find(|(scalar, _)| *scalar == elem).map(|(_, descr)| *descr)
}

/// The element type that NumPy writes so, and whether its bytes are in the other order.
pub(crate) fn scalar_of(descr: &str) -> Option<(Scalar, bool)> {
    let big_endian = descr.starts_with('>');
    // Bytes have no order; some writers give one all the same, and `=` is the machine's.
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    let (scalar, _) = TYPES.iter().find(|(_, known)| &known[1..] == kind)?;
    Some((*scalar, big_endian))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                 \n";
        let header = Header { descr: "<f4".into(), fortran_order: false, shape: vec![2, 3] };
        assert_eq!(Header::parse(text), Ok(header.clone()));
        // The bytes of `numpy.save` for `numpy.zeros((2, 3), "float32")`, up to the data.
        let mut bytes =
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".to_vec();
        bytes.resize(127, b' ');
        bytes.push(b'\n');
        assert_eq!(header.to_bytes(), bytes);
    }

    #[test]
    fn tuples_of_none_and_of_one() {
        for (shape, text) in [(vec![], "()"), (vec![7], "(7,)"), (vec![0, 5], "(0, 5)")] {
            let header = Header { descr: "|b1".into(), fortran_order: true, shape };
            let bytes = header.to_bytes();
            assert!(bytes.len().is_multiple_of(64));
            let written = std::str::from_utf8(&bytes[10..]).unwrap();
            assert!(written.contains(&format!("'shape': {text}, ")), "{written}");
            assert_eq!(Header::parse(written), Ok(header));
        }
    }

    #[test]
    fn damage_is_named() {
        let of = |text: &str| Header::parse(text).unwrap_err();
        assert_eq!(of("{'descr': '<f4', 'shape': (2,)}"), "its header has no entry `fortran_order`");
        assert_eq!(of("['descr']"), "its header is damaged: expected `{`, found `['descr']`");
        assert_eq!(of("{'descr: 1"), "its header is damaged: a string does not end");
        assert!(of("{'shape': (99999999999999999999,)").contains("expected an extent"));
        assert!(of("{'shape': (-1,)").contains("expected an extent"));
        assert!(of("{'descr': [('a', '<f4')]").contains("records"));
        assert!(of("{'color': 1}").contains("`color`"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = Header::parse(&text);
            let _ = Header::parse(&format!("{{'shape': ({text}"));
            let _ = scalar_of(&text);
        }

        #[test]
        fn what_is_written_is_read(shape in prop::collection::vec(any::<usize>(), 0..9), fortran_order: bool) {
            let header = Header { descr: "<i8".into(), fortran_order, shape };
            let bytes = header.to_bytes();
            let (before, length) = lengths(bytes[..12].try_into().unwrap()).unwrap();
            prop_assert_eq!(before + length, bytes.len());
            prop_assert_eq!(Header::parse(std::str::from_utf8(&bytes[before..]).unwrap()), Ok(header));
        }
    }
}
