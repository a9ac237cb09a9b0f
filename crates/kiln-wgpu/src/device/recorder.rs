//! Work that is recorded and not submitted yet.
//!
//! Launches and copies go into one encoder, and launches that follow each other into one compute
//! pass. The recording is submitted when somebody waits, when it is full, or when an upload must
//! come after it. Recordings are numbered from 1; a recording is done when its submission is.

use super::gpu::{Gpu, refused};
use super::groups::CachedGroup;
use super::program::Pipeline;
use super::submitter::{Recording, Submitter};
use kiln_backend::Result;

/// Bytes of parameter blocks in a recording.
const PARAMETER_BYTES: usize = 64 << 10;

/// Launches after which a recording is submitted, so that the device does not wait for a host that
/// goes on recording: few at first, then four times as many each time, as the device has work by
/// then and a submission costs the host as much as some 20 launches.
const FIRST_LAUNCHES: u32 = 32;
const MOST_LAUNCHES: u32 = 512;
const MORE_LAUNCHES: u32 = 4;

/// Bytes of uploads after which a recording is submitted: wgpu keeps a copy of each until then.
const UPLOAD_BYTES: u64 = 64 << 20;

/// Where the parameters of a launch are.
#[derive(Clone, Copy)]
pub(crate) enum ParameterSource<'a> {
    /// Recorded with it.
    Immediates(&'a [u8]),
    /// In the parameter buffer, from this byte on.
    Uniform(u32),
}

/// The open recording, and what was submitted before it.
pub(crate) struct Recorder {
    encoder: Option<wgpu::CommandEncoder>,
    /// The open pass of the encoder.
    pass: Option<wgpu::ComputePass<'static>>,
    /// The serial numbers of the pipeline and the bind group that the pass has.
    set: (Option<u64>, Option<u64>),
    /// The queries that were written in the pass.
    timed: Vec<u32>,
    /// The immediates that the pass has, if it has that pipeline.
    immediates: Vec<u8>,
    /// The parameter blocks of the recording's launches, which are uploaded as it is submitted.
    parameters: Vec<u8>,
    /// What the offset of a parameter block is a multiple of.
    alignment: usize,
    launches: u32,
    /// The launches after which it is full.
    capacity: u32,
    uploaded: u64,
    number: u64,
    submitter: Submitter,
}

impl Recorder {
    pub(crate) fn new(gpu: &Gpu) -> Recorder {
        let parameter_buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("parameters"),
            size: PARAMETER_BYTES as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Recorder {
            encoder: None,
            pass: None,
            set: (None, None),
            timed: Vec::new(),
            immediates: Vec::new(),
            parameters: Vec::new(),
            alignment: gpu.limits.min_uniform_buffer_offset_alignment.max(16) as usize,
            launches: 0,
            capacity: FIRST_LAUNCHES,
            uploaded: 0,
            number: 1,
            submitter: Submitter::new(parameter_buffer),
        }
    }

    /// The number of the open recording.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether nothing was recorded or uploaded since the last submission.
    pub(crate) fn is_empty(&self) -> bool {
        self.encoder.is_none() && self.uploaded == 0
    }

    /// The last submission, once it is [submitted](Self::submit) what was recorded.
    pub(crate) fn submitted(&self) -> Option<wgpu::SubmissionIndex> {
        self.submitter.submitted()
    }

    /// The buffer that parameter blocks are in, at the offsets that
    /// [`add_parameters`](Self::add_parameters) gives.
    pub(crate) fn parameter_buffer(&self) -> &wgpu::Buffer {
        self.submitter.parameter_buffer()
    }

    /// The encoder, for what is not a launch.
    pub(crate) fn encoder(&mut self, gpu: &Gpu) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| gpu.device.create_command_encoder(&Default::default()))
    }

    /// Records that the time is taken once all before it is done. The pass goes on where that is
    /// possible: what a driver does between two passes would count too.
    pub(crate) fn write_timestamp(&mut self, gpu: &Gpu, set: &wgpu::QuerySet, query: u32) {
        if !gpu.has_timestamps_in_passes {
            return self.encoder(gpu).write_timestamp(set, query);
        }
        if self.timed.contains(&query) {
            // Of an event that is gone. Queries are written once a pass.
            self.pass = None;
        }
        self.pass(gpu).write_timestamp(set, query);
        self.timed.push(query);
    }

    /// The open pass.
    fn pass(&mut self, gpu: &Gpu) -> &mut wgpu::ComputePass<'static> {
        let encoder =
            self.encoder.get_or_insert_with(|| gpu.device.create_command_encoder(&Default::default()));
        let (set, timed) = (&mut self.set, &mut self.timed);
        self.pass.get_or_insert_with(|| {
            *set = (None, None);
            timed.clear();
            encoder.begin_compute_pass(&Default::default()).forget_lifetime()
        })
    }

    /// Records a dispatch. The pass keeps the pipeline, the bind group and the immediates of the
    /// one before it.
    pub(crate) fn dispatch(
        &mut self,
        gpu: &Gpu,
        pipeline: &Pipeline,
        group: &CachedGroup,
        parameters: ParameterSource<'_>,
        [x, y, z]: [u32; 3],
    ) {
        self.launches += 1;
        self.pass(gpu);
        let (Some(pass), set, known) = (&mut self.pass, &mut self.set, &mut self.immediates) else { return };
        if set.0 != Some(pipeline.serial) {
            pass.set_pipeline(&pipeline.pipeline);
            *set = (Some(pipeline.serial), None);
            known.clear();
        }
        match parameters {
            ParameterSource::Immediates(block) => {
                if set.1 != Some(group.serial) {
                    pass.set_bind_group(0, &group.group, &[]);
                }
                if known != block {
                    pass.set_immediates(0, block);
                    known.clear();
                    known.extend_from_slice(block);
                }
            }
            ParameterSource::Uniform(offset) => pass.set_bind_group(0, &group.group, &[offset]),
        }
        set.1 = Some(group.serial);
        pass.dispatch_workgroups(x, y, z);
    }

    /// Adds a parameter block, and gives its offset in the buffer. The recording is submitted first
    /// if it has no room.
    pub(crate) fn add_parameters(&mut self, gpu: &Gpu, block: &[u8]) -> Result<u32> {
        if block.len() > PARAMETER_BYTES {
            return Err(refused("launch", format!("{} bytes of parameters", block.len())));
        }
        let start = self.parameters.len().next_multiple_of(self.alignment);
        if start + block.len() > PARAMETER_BYTES {
            self.submit(gpu)?;
            return self.add_parameters(gpu, block);
        }
        self.parameters.resize(start, 0);
        self.parameters.extend_from_slice(block);
        Ok(start as u32)
    }

    /// Has the recording submitted if it has become long, by and by if it has launches alone.
    pub(crate) fn submit_if_full(&mut self, gpu: &Gpu) -> Result<()> {
        if self.uploaded >= UPLOAD_BYTES {
            return self.submit(gpu);
        }
        if self.launches < self.capacity {
            return Ok(());
        }
        let recording = self.close();
        self.submitter.hand_over(gpu, recording);
        gpu.check()
    }

    /// Writes whole words to a buffer that no open recording uses, before all that is recorded.
    pub(crate) fn upload(&mut self, gpu: &Gpu, to: &wgpu::Buffer, offset: u64, data: &[u8]) {
        self.submitter.settled();
        gpu.queue.write_buffer(to, offset, data);
        self.uploaded += data.len() as u64;
    }

    /// Submits the recording, and what was handed over before it. The next one begins.
    pub(crate) fn submit(&mut self, gpu: &Gpu) -> Result<()> {
        if self.is_empty() {
            self.submitter.settled();
            return gpu.check();
        }
        let recording = self.close();
        self.submitter.submit(gpu, recording);
        gpu.check()
    }

    /// Completes the recording. The next one begins.
    fn close(&mut self) -> Recording {
        let words = self.parameters.len().next_multiple_of(4);
        self.parameters.resize(words, 0);
        self.pass = None;
        let (encoder, parameters) = (self.encoder.take(), std::mem::take(&mut self.parameters));
        let recording = Recording { encoder, parameters, number: self.number };
        self.number += 1;
        // Before it was full somebody waits, and would wait longer for a longer one.
        let is_full = self.launches >= self.capacity;
        self.capacity =
            if is_full { (MORE_LAUNCHES * self.capacity).min(MOST_LAUNCHES) } else { FIRST_LAUNCHES };
        (self.launches, self.uploaded) = (0, 0);
        recording
    }
}
