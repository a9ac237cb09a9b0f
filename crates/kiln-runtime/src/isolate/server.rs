//! The child's side: a device that does what the socket says.

use super::memory::Shared;
use super::wire::{DONE, Fields, Frame, Op, broken, failure, put_properties};
use kiln_backend::{
    Artifacts, Backend, BufferBinding, DevicePtr, Error, EventId, Launch, Mapped, Program, ResidentId,
    Result, Stages, StreamId,
};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// A device, and what the other process has of it.
pub struct Server {
    backend: Box<dyn Backend>,
    programs: HashMap<u64, Arc<dyn Program>>,
    /// By the device's address.
    mapped: HashMap<u64, (Mapped, Shared)>,
    /// Memory that was given up.
    retired: Vec<Shared>,
    next: u64,
}

impl Server {
    pub fn new(backend: Box<dyn Backend>) -> Server {
        Server { backend, programs: HashMap::new(), mapped: HashMap::new(), retired: Vec::new(), next: 0 }
    }

    /// Answers requests until the socket is closed.
    pub fn serve(mut self, mut socket: impl Read + Write) -> io::Result<()> {
        while let Some((code, mut fields)) = Fields::receive(&mut socket)? {
            let op = Op::from_code(code).ok_or_else(broken);
            let reply = op.and_then(|op| self.answer(op, &mut fields));
            reply.unwrap_or_else(|error| failure(&error)).send(&mut socket)?;
        }
        Ok(())
    }

    fn answer(&mut self, op: Op, fields: &mut Fields) -> Result<Frame> {
        match op {
            Op::Allocate | Op::Free | Op::Upload | Op::Download | Op::Copy | Op::Fill | Op::FreeMemory => {
                self.memory(op, fields)
            }
            Op::Compile
            | Op::Load
            | Op::Unload
            | Op::Launch
            | Op::LaunchResident
            | Op::ResidentDone
            | Op::BlockTime => self.programs(op, fields),
            Op::Map | Op::Unmap => self.mapped(op, fields),
            Op::Hello => {
                let key = self.backend.artifacts().map(Artifacts::artifact_key);
                let frame = put_properties(Frame::new(DONE), self.backend.properties());
                Ok(frame.number(key.is_some().into()).text(&key.unwrap_or_default()))
            }
            _ => self.streams(op, fields),
        }
    }

    fn memory(&mut self, op: Op, fields: &mut Fields) -> Result<Frame> {
        let done = Frame::new(DONE);
        if op == Op::FreeMemory {
            return Ok(done.number(self.backend.free_memory()?));
        }
        let stream = StreamId(fields.number()?);
        if op == Op::Allocate {
            return Ok(done.number(self.backend.allocate(fields.number()? as usize, stream)?.0));
        }
        let at = DevicePtr(fields.number()?);
        // SAFETY, in each arm: the caller in the other process promised it, where the method that
        // sent the request is as unsafe.
        match op {
            // SAFETY: see above.
            Op::Free => unsafe { self.backend.free(at, fields.number()? as usize, stream) },
            // SAFETY: see above.
            Op::Upload => unsafe { self.backend.upload(at, fields.bytes()?, stream)? },
            Op::Download => {
                let mut bytes = vec![0; fields.number()? as usize];
                // SAFETY: see above.
                unsafe { self.backend.download(&mut bytes, at, stream)? };
                return Ok(done.bytes(&bytes));
            }
            Op::Copy => {
                let (from, bytes) = (DevicePtr(fields.number()?), fields.number()? as usize);
                // SAFETY: see above.
                unsafe { self.backend.copy(at, from, bytes, stream)? };
            }
            _ => {
                let (byte, bytes) = (fields.number()? as u8, fields.number()? as usize);
                // SAFETY: see above.
                unsafe { self.backend.fill(at, byte, bytes, stream)? };
            }
        }
        Ok(done)
    }

    fn programs(&mut self, op: Op, fields: &mut Fields) -> Result<Frame> {
        let done = Frame::new(DONE);
        match op {
            Op::Compile => {
                let kernel = kiln_ir::parse(&fields.text()?).map_err(|errors| Error::Internal {
                    place: "kiln-runtime",
                    message: format!("a kernel did not survive the way to another process: {errors}"),
                })?;
                let compiled = self.backend.compile(&kernel)?;
                let frame = self.loaded(compiled.program);
                let artifact = compiled.artifact;
                let frame = frame.number(artifact.is_some().into()).bytes(&artifact.unwrap_or_default());
                let Stages { passes, emission, assembly, loading } = compiled.stages;
                let times = [passes, emission, assembly, loading];
                Ok(times.into_iter().fold(frame, |frame, time| frame.number(time.as_nanos() as u64)))
            }
            Op::Load => {
                let program = self.backend.need_artifacts()?.load(fields.bytes()?)?;
                Ok(self.loaded(program))
            }
            Op::Unload => {
                self.programs.remove(&fields.number()?);
                Ok(done)
            }
            Op::ResidentDone => {
                let over = self.backend.need_residents()?.resident_done(ResidentId(fields.number()?))?;
                Ok(done.number(over.into()))
            }
            Op::BlockTime => {
                let residents = self.backend.need_residents()?;
                let time = residents.block_time(ResidentId(fields.number()?), fields.number()?);
                let (ran, runnable) = time.map_or((0, false), |t| (t.ran.as_nanos() as u64, t.runnable));
                Ok(done.number(time.is_some().into()).number(ran).number(runnable.into()))
            }
            _ => self.launch(op, fields),
        }
    }

    fn loaded(&mut self, program: Arc<dyn Program>) -> Frame {
        self.next += 1;
        let report = program.report();
        self.programs.insert(self.next, program);
        let numbers = [report.threads, report.registers, report.shared, report.spills];
        numbers
            .into_iter()
            .fold(Frame::new(DONE).number(self.next), |frame, number| frame.number(number.into()))
    }

    fn launch(&mut self, op: Op, fields: &mut Fields) -> Result<Frame> {
        let program = self.programs.get(&fields.number()?).ok_or_else(broken)?;
        let stream = StreamId(fields.number()?);
        let grid = [fields.number()? as u32, fields.number()? as u32, fields.number()? as u32];
        let views = fields.number()?;
        let buffers = (0..views).map(|_| view(fields)).collect::<Result<Vec<_>>>()?;
        let count = fields.number()?;
        let numbers = (0..count).map(|_| fields.number()).collect::<Result<Vec<_>>>()?;
        let launch = Launch { grid, buffers: &buffers, numbers: &numbers, stream };
        if op == Op::Launch {
            // SAFETY: the caller in the other process promised it.
            unsafe { self.backend.launch(&**program, launch)? };
            return Ok(Frame::new(DONE));
        }
        // SAFETY: as above.
        let id = unsafe { self.backend.need_residents()?.launch_resident(program, launch)? };
        Ok(Frame::new(DONE).number(id.0))
    }

    fn mapped(&mut self, op: Op, fields: &mut Fields) -> Result<Frame> {
        let done = Frame::new(DONE);
        if op == Op::Unmap {
            if let Some((mapped, shared)) = self.mapped.remove(&fields.number()?) {
                let memory = self.backend.need_mapped_memory()?;
                // SAFETY: adopted once, and given up by the other process; the memory goes after
                // it.
                unsafe { memory.disown(mapped) };
                // A driver may let go of it only after the last resident launch.
                self.retired.push(shared);
            }
            return Ok(done);
        }
        let (path, bytes) = (fields.text()?, fields.number()? as usize);
        let failed = |error: io::Error| Error::Driver {
            call: format!("mapping {path}"),
            code: error.kind().to_string(),
            message: error.to_string(),
        };
        let shared = Shared::open(&path).map_err(failed)?;
        let host = shared.pointer().ok_or_else(broken)?;
        // SAFETY: the mapping is as long, and lives until it has been disowned.
        let mapped = unsafe { self.backend.need_mapped_memory()?.adopt(host, bytes)? };
        let device = mapped.device.0;
        self.mapped.insert(device, (mapped, shared));
        Ok(done.number(device))
    }

    fn streams(&mut self, op: Op, fields: &mut Fields) -> Result<Frame> {
        let (done, backend) = (Frame::new(DONE), &self.backend);
        if op == Op::CreateStream {
            return Ok(done.number(backend.create_stream()?.0));
        }
        let first = fields.number()?;
        match op {
            Op::DestroyStream => backend.destroy_stream(StreamId(first)),
            Op::Record => return Ok(done.number(backend.record(StreamId(first), fields.number()? != 0)?.0)),
            Op::Wait => backend.wait(StreamId(first), EventId(fields.number()?))?,
            Op::Query => return Ok(done.number(backend.query(EventId(first))?.into())),
            Op::Elapsed => {
                let ms = backend.elapsed_ms(EventId(first), EventId(fields.number()?))?;
                return Ok(done.number(ms.to_bits().into()));
            }
            Op::DestroyEvent => backend.destroy_event(EventId(first)),
            _ => backend.synchronize(StreamId(first))?,
        }
        Ok(done)
    }
}

/// Where a view of a launch is.
fn view(fields: &mut Fields) -> Result<BufferBinding> {
    let (buffer, byte_offset) = (DevicePtr(fields.number()?), fields.number()?);
    Ok(BufferBinding { buffer, byte_offset, written: fields.number()? != 0 })
}
