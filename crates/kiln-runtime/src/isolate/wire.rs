//! What the two processes say to each other: frames of fields over a socket.
//!
//! A frame is its length in 4 bytes, then a request's number or a reply's status in one, then
//! fields: numbers of 8 bytes, and byte strings with their length before them. Little-endian.

use kiln_backend::{Capabilities, Clock, Error, Execution, MatrixFormat, MatrixUnits, Properties, Residency};
use std::io::{self, Read, Write};

/// The most bytes of a frame: copies are cut into pieces of less.
pub const MOST: usize = 64 << 20;

/// The requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    Hello,
    FreeMemory,
    Allocate,
    Free,
    Upload,
    Download,
    Copy,
    Fill,
    Compile,
    Load,
    Unload,
    Launch,
    LaunchResident,
    ResidentDone,
    BlockTime,
    Map,
    Unmap,
    CreateStream,
    DestroyStream,
    Record,
    Wait,
    Query,
    Elapsed,
    DestroyEvent,
    Synchronize,
}

impl Op {
    const ALL: [Op; 25] = [
        Op::Hello,
        Op::FreeMemory,
        Op::Allocate,
        Op::Free,
        Op::Upload,
        Op::Download,
        Op::Copy,
        Op::Fill,
        Op::Compile,
        Op::Load,
        Op::Unload,
        Op::Launch,
        Op::LaunchResident,
        Op::ResidentDone,
        Op::BlockTime,
        Op::Map,
        Op::Unmap,
        Op::CreateStream,
        Op::DestroyStream,
        Op::Record,
        Op::Wait,
        Op::Query,
        Op::Elapsed,
        Op::DestroyEvent,
        Op::Synchronize,
    ];

    /// The request with this number.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.get(usize::from(code)).copied()
    }
}

/// A reply's status.
pub const DONE: u8 = 0;
/// See [`DONE`]: the fields are an error.
pub const FAILED: u8 = 1;

/// A frame being written.
pub struct Frame(Vec<u8>);

impl Frame {
    /// A frame that begins with a request's number or a status.
    pub fn new(code: u8) -> Frame {
        Frame(vec![0, 0, 0, 0, code])
    }

    pub fn number(mut self, number: u64) -> Frame {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub fn bytes(self, bytes: &[u8]) -> Frame {
        let mut frame = self.number(bytes.len() as u64);
        frame.0.extend(bytes);
        frame
    }

    pub fn text(self, text: &str) -> Frame {
        self.bytes(text.as_bytes())
    }

    /// Sends it.
    pub fn send(mut self, to: &mut impl Write) -> io::Result<()> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        to.write_all(&self.0)?;
        to.flush()
    }
}

/// A frame that arrived, and how far it has been read.
pub struct Fields {
    bytes: Vec<u8>,
    at: usize,
}

impl Fields {
    /// The next frame: its code and its fields. `None` where the other side has closed the socket.
    pub fn receive(from: &mut impl Read) -> io::Result<Option<(u8, Fields)>> {
        let mut length = [0; 4];
        match from.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 || length > 2 * MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of another protocol"));
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        Ok(Some((bytes[0], Fields { bytes, at: 1 })))
    }

    pub fn number(&mut self) -> Result<u64, Error> {
        let end = self.at + 8;
        let bytes = self.bytes.get(self.at..end).and_then(|b| b.try_into().ok()).ok_or_else(broken)?;
        self.at = end;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn bytes(&mut self) -> Result<&[u8], Error> {
        let length = self.number()? as usize;
        let (begin, end) = (self.at, self.at.saturating_add(length));
        self.at = end;
        self.bytes.get(begin..end).ok_or_else(broken)
    }

    pub fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| broken())
    }
}

/// The error of a frame that is not as both sides agreed.
pub fn broken() -> Error {
    let message = "a message between two processes does not have the fields that it should".to_owned();
    Error::Internal { place: "kiln-runtime", message }
}

/// An error as a reply.
pub fn failure(error: &Error) -> Frame {
    let (code, texts, numbers): (u64, Vec<&str>, Vec<u64>) = match error {
        Error::Unavailable { device, reason, hint } => (0, vec![device, reason, hint], vec![]),
        Error::OutOfMemory { device, requested, free, total } => {
            (1, vec![device], vec![*requested, *free, *total])
        }
        Error::LaunchLimit { kernel, what, given, limit } => (2, vec![kernel, what], vec![*given, *limit]),
        Error::Unsupported { kernel, what, device, location, hint } => {
            (3, vec![kernel, what, device, location, hint], vec![])
        }
        Error::Compile { kernel, location, message } => (4, vec![kernel, location, message], vec![]),
        Error::Fault(fault) => return failure(&fault_text(&fault.to_string())),
        Error::Driver { call, code, message } => (5, vec![call, code, message], vec![]),
        Error::Lost { device, reason } => (6, vec![device, reason], vec![]),
        Error::Internal { message, .. } => (7, vec![message], vec![]),
        Error::PrintSink { device, message } => (8, vec![device, message], vec![]),
        Error::InsidePrintSink { device } => (9, vec![device], vec![]),
        // Of browsers, which have no processes.
        Error::CannotWait { .. } => {
            return failure(&Error::Internal { place: "kiln-runtime", message: error.to_string() });
        }
    };
    let frame = texts.into_iter().fold(Frame::new(FAILED).number(code), |frame, text| frame.text(text));
    numbers.into_iter().fold(frame, Frame::number)
}

/// A fault crosses as the text that it is for its reader.
fn fault_text(fault: &str) -> Error {
    Error::Driver { call: "a kernel".to_owned(), code: "a fault".to_owned(), message: fault.to_owned() }
}

/// The error that a reply is.
pub fn error(fields: &mut Fields) -> Error {
    let mut read = || -> Result<Error, Error> {
        Ok(match fields.number()? {
            0 => Error::Unavailable { device: fields.text()?, reason: fields.text()?, hint: fields.text()? },
            1 => Error::OutOfMemory {
                device: fields.text()?,
                requested: fields.number()?,
                free: fields.number()?,
                total: fields.number()?,
            },
            2 => Error::LaunchLimit {
                kernel: fields.text()?,
                what: fields.text()?,
                given: fields.number()?,
                limit: fields.number()?,
            },
            3 => Error::Unsupported {
                kernel: fields.text()?,
                what: fields.text()?,
                device: fields.text()?,
                location: fields.text()?,
                hint: fields.text()?,
            },
            4 => Error::Compile { kernel: fields.text()?, location: fields.text()?, message: fields.text()? },
            5 => Error::Driver { call: fields.text()?, code: fields.text()?, message: fields.text()? },
            6 => Error::Lost { device: fields.text()?, reason: fields.text()? },
            8 => Error::PrintSink { device: fields.text()?, message: fields.text()? },
            9 => Error::InsidePrintSink { device: fields.text()? },
            7 => Error::Internal { place: "the isolated process", message: fields.text()? },
            _ => broken(),
        })
    };
    read().unwrap_or_else(|error| error)
}

/// Writes a device's properties.
pub fn put_properties(frame: Frame, p: &Properties) -> Frame {
    let pair = |pair: Option<(u32, u32)>| pair.map_or(u64::MAX, |(a, b)| u64::from(a) << 32 | u64::from(b));
    let numbers = [
        p.units.into(),
        p.warp.into(),
        p.max_threads.into(),
        p.max_grid[0].into(),
        p.max_grid[1].into(),
        p.max_grid[2].into(),
        p.shared_memory.into(),
        p.memory,
        p.cache,
        pair(p.compute_capability),
        pair(p.ptx),
        match p.residency {
            Residency::Within => 0,
            Residency::Beside => 1,
            Residency::Dispatched => 2,
        },
    ];
    let frame = numbers.into_iter().fold(frame, Frame::number);
    let frame = put_capabilities(frame, &p.capabilities);
    let frame = frame.bytes(p.uuid.as_ref().map_or(&[], |uuid| uuid));
    [&p.id, &p.name, &p.driver].into_iter().fold(frame, |frame, text| frame.text(text))
}

/// Reads what [`put_properties`] wrote. Device memory is never the host's: the two have different
/// processes.
pub fn properties(fields: &mut Fields) -> Result<Properties, Error> {
    let pair = |number: u64| (number != u64::MAX).then_some(((number >> 32) as u32, number as u32));
    let mut n = [0; 12];
    for number in &mut n {
        *number = fields.number()?;
    }
    let capabilities = capabilities(fields)?;
    let uuid = fields.bytes()?.try_into().ok();
    Ok(Properties {
        uuid,
        id: fields.text()?,
        name: fields.text()?,
        units: n[0] as u32,
        warp: n[1] as u32,
        max_threads: n[2] as u32,
        max_grid: [n[3] as u32, n[4] as u32, n[5] as u32],
        shared_memory: n[6] as u32,
        memory: n[7],
        cache: n[8],
        compute_capability: pair(n[9]),
        driver: fields.text()?,
        ptx: pair(n[10]),
        unified: false,
        residency: match n[11] {
            1 => Residency::Beside,
            2 => Residency::Dispatched,
            _ => Residency::Within,
        },
        capabilities,
    })
}

/// Writes what a device can do.
fn put_capabilities(frame: Frame, capabilities: &Capabilities) -> Frame {
    // Named one by one, so that a new capability does not compile until it crosses.
    let Capabilities {
        execution,
        on_host,
        software,
        matrix_units,
        warpgroup_products,
        bulk_copies,
        clusters,
        explicit_level,
        concurrent_blocks,
        grid_barriers,
        inline_ptx,
        atomic_128,
        loads_beside_residents,
        peer_access,
        contraction,
        subnormals,
        launch_limit,
        sanitizer,
        clock,
    } = *capabilities;
    let formats = MatrixFormat::ALL.map(|format| matrix_units.multiply(format));
    let flags = [
        on_host,
        software,
        warpgroup_products,
        bulk_copies,
        explicit_level,
        concurrent_blocks,
        grid_barriers,
        inline_ptx,
        atomic_128,
        loads_beside_residents,
        peer_access,
        contraction,
        subnormals,
        launch_limit,
        sanitizer,
    ];
    let numbers = [
        match execution {
            Execution::Simt => 0,
            Execution::Simd => 1,
            Execution::Interpreted => 2,
        },
        match clock {
            Clock::Device => 0,
            Clock::Host => 1,
            Clock::Operations => 2,
        },
        clusters.into(),
    ];
    let bits = flags.into_iter().chain(formats).map(u64::from);
    numbers.into_iter().chain(bits).fold(frame, Frame::number)
}

/// Reads what [`put_capabilities`] wrote.
fn capabilities(fields: &mut Fields) -> Result<Capabilities, Error> {
    let execution = match fields.number()? {
        0 => Execution::Simt,
        1 => Execution::Simd,
        2 => Execution::Interpreted,
        _ => return Err(broken()),
    };
    let clock = match fields.number()? {
        0 => Clock::Device,
        1 => Clock::Host,
        2 => Clock::Operations,
        _ => return Err(broken()),
    };
    let clusters = fields.number()? as u32;
    let mut flag = || fields.number().map(|number| number != 0);
    let mut found = Capabilities {
        execution,
        on_host: flag()?,
        software: flag()?,
        warpgroup_products: flag()?,
        bulk_copies: flag()?,
        explicit_level: flag()?,
        concurrent_blocks: flag()?,
        grid_barriers: flag()?,
        inline_ptx: flag()?,
        atomic_128: flag()?,
        loads_beside_residents: flag()?,
        peer_access: flag()?,
        contraction: flag()?,
        subnormals: flag()?,
        launch_limit: flag()?,
        sanitizer: flag()?,
        matrix_units: MatrixUnits::NONE,
        clusters,
        clock,
    };
    for format in MatrixFormat::ALL {
        if flag()? {
            found.matrix_units = found.matrix_units.with(format);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(frame: Frame) -> (u8, Fields) {
        let mut bytes = Vec::new();
        frame.send(&mut bytes).unwrap();
        Fields::receive(&mut &bytes[..]).unwrap().unwrap()
    }

    #[test]
    fn frames_survive_the_way() {
        let (code, mut fields) = sent(Frame::new(9).number(7).text("hé").bytes(&[]).number(u64::MAX));
        assert_eq!((code, fields.number().unwrap(), fields.text().unwrap().as_str()), (9, 7, "hé"));
        assert!(fields.bytes().unwrap().is_empty());
        assert_eq!(fields.number().unwrap(), u64::MAX);
        assert!(fields.number().is_err());
        assert!(Fields::receive(&mut &[][..]).unwrap().is_none());
        assert!(
            Fields::receive(&mut &[0; 9][..]).is_err() && Fields::receive(&mut &[9, 0, 0, 0, 1][..]).is_err()
        );
        for (number, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!((op as usize, Op::from_code(number as u8)), (number, Some(op)));
        }
        assert_eq!(Op::from_code(Op::ALL.len() as u8), None);
    }

    #[test]
    fn properties_survive_the_way() {
        let gpu = Properties {
            id: "cuda:1".to_owned(),
            name: "some GPU".to_owned(),
            uuid: Some(std::array::from_fn(|i| i as u8)),
            units: 1,
            warp: 2,
            max_threads: 3,
            max_grid: [4, 5, 6],
            shared_memory: 7,
            memory: 8,
            cache: 9,
            compute_capability: Some((9, 0)),
            driver: "10".to_owned(),
            ptx: Some((8, 8)),
            unified: false,
            residency: Residency::Beside,
            capabilities: Capabilities {
                matrix_units: MatrixUnits::NONE.with(MatrixFormat::Tf32).with(MatrixFormat::Float8),
                clusters: 8,
                bulk_copies: true,
                contraction: true,
                clock: Clock::Device,
                ..Capabilities::new(Execution::Simt)
            },
        };
        let cpu = Properties {
            uuid: None,
            compute_capability: None,
            ptx: None,
            capabilities: Capabilities {
                on_host: true,
                launch_limit: true,
                ..Capabilities::new(Execution::Simd)
            },
            ..gpu.clone()
        };
        for want in [gpu, cpu] {
            let (_, mut fields) = sent(put_properties(Frame::new(9), &want));
            assert_eq!(format!("{:?}", properties(&mut fields).unwrap()), format!("{want:?}"));
        }
    }

    #[test]
    fn errors_survive_the_way() {
        let text = |t: &str| t.to_owned();
        let errors = [
            Error::Unavailable { device: text("a"), reason: text("b"), hint: text("c") },
            Error::OutOfMemory { device: text("a"), requested: 1, free: 2, total: 3 },
            Error::LaunchLimit { kernel: text("k"), what: text("w"), given: 4, limit: 5 },
            Error::Compile { kernel: text("k"), location: text("l"), message: text("m") },
            Error::Driver { call: text("c"), code: text("d"), message: text("m") },
            Error::Lost { device: text("d"), reason: text("r") },
            Error::PrintSink { device: text("d"), message: text("m") },
            Error::InsidePrintSink { device: text("d") },
        ];
        for want in errors {
            let (code, mut fields) = sent(failure(&want));
            assert_eq!((code, error(&mut fields).to_string()), (FAILED, want.to_string()));
        }
    }
}
