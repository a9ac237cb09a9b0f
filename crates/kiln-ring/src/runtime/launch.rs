//! Bringing actors into being: new ones, and those that go on from a checkpoint.

use super::body::{Body, BodyConfig};
use super::checkpoint::{Checkpoint, HeldPriority};
use super::faults::Faults;
use super::limit::Limit;
use super::link::InboundLinks;
use super::memory::SharedMemory;
use super::output_ring::OutputSpec;
use super::{Actor, RingConfig, RingRuntime, Side};
use crate::channel::{Channel, ChannelConfig, DeviceSide, Parts};
use crate::device::ActorKind;
use crate::error::{CheckpointError, Result, RingError};
use crate::handler::{ErasedHandler, Handler};
use crate::layout::Layout;
use crate::standing::StandingCell;
use crate::wire::gauge;
use crate::wire::record::{actor as line, endpoint, gate};
use crate::wire::slot::{PAYLOAD, SlotLayout, deadline_header, in_priority};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

impl RingRuntime {
    /// Makes an actor of a handler that has the layouts of `H`: with this state, and with so many
    /// messages before its first in each priority.
    pub(super) fn begin<H: Handler>(
        &self,
        kind: ActorKind,
        state_words: Vec<u32>,
        passed: Vec<u64>,
        body_config: BodyConfig,
    ) -> Result<Actor<H>> {
        let holds = H::Message::HOLDS || H::State::HOLDS || H::Reply::HOLDS;
        let body = self.begin_erased(kind, state_words, passed, body_config, holds)?;
        let channel = Channel::of(Arc::clone(&body.mailbox));
        Ok(Actor::new(body, channel))
    }

    /// The part of [`launch`](Self::launch) that does not depend on the handler's type. `holds` is
    /// as for [`begin_erased`](Self::begin_erased).
    pub(super) fn launch_erased(
        &self,
        handler: Arc<dyn ErasedHandler>,
        body_config: BodyConfig,
        holds: bool,
    ) -> Result<Arc<Body>> {
        let signature = handler.signature();
        let (message, reply) = (signature.message_words, signature.reply_words);
        let form = body_config.channel.form_of(self.0.protocol, message, reply)?;
        self.0.settle(&body_config.held)?;
        let kind = ActorKind::new(handler, &form);
        self.begin_erased(kind, body_config.first_state.clone(), Vec::new(), body_config, holds)
    }

    /// The part of [`begin`](Self::begin) that does not depend on the handler's type. `holds` says
    /// whether any of its values refer to arrays.
    fn begin_erased(
        &self,
        kind: ActorKind,
        state_words: Vec<u32>,
        passed: Vec<u64>,
        body_config: BodyConfig,
        holds: bool,
    ) -> Result<Arc<Body>> {
        let shared = &self.0;
        let signature = kind.handler.signature();
        let form =
            body_config.channel.form_of(shared.protocol, signature.message_words, signature.reply_words)?;
        let number = shared.kind(kind.clone())?;
        let gauges = line::WORDS + gauge::behind(state_words.len());
        let gauge_words = gauge::words(form.priorities);
        let sizes = [
            form.priorities * form.request_words(),
            form.priorities * form.answer_words(),
            gauges + gauge_words,
        ];
        let beside = body_config.beside.and_then(|place| place.worker_in(shared));
        let (endpoints, ranges) = shared.reserve(form.priorities, beside, sizes).or_else(|_| {
            // What has ended may still be read.
            shared.supervisor.look_over();
            shared.sweep();
            shared.reserve(form.priorities, beside, sizes)
        })?;
        let [inbox, outbox, state] = ranges;
        let actor = shared.actors.fetch_add(1, Ordering::Relaxed);
        let mut record = [0u32; endpoint::WORDS];
        record[endpoint::KIND] = number;
        record[endpoint::GATE] = gate::HELD;
        record[endpoint::REQUESTS] = inbox.at as u32;
        record[endpoint::ANSWERS] = outbox.at as u32;
        record[endpoint::LOG2_SLOTS] = form.requests.log2_slots();
        record[endpoint::STATE] = (state.at + line::WORDS) as u32;
        record[endpoint::ACTOR] = actor;
        record[endpoint::REQUEST_STRIDE] = form.requests.slot().stride() as u32;
        record[endpoint::REQUEST_QUADS] = form.requests.slot().quads() as u32;
        record[endpoint::ANSWER_STRIDE] = form.answers.slot().stride() as u32;
        let spec = OutputSpec {
            actor,
            handler: signature.name,
            capacity: form.capacity,
            slot: SlotLayout::new(form.answers.slot().payload_words(), true),
            message: (signature.message_id, signature.message_words),
            reply_words: signature.reply_words,
            inlines: kind.handler.inlines(),
            references: kind.handler.references(),
            letters: Arc::clone(&shared.letters),
            wait: body_config.channel.wait,
        };
        // From here on, whatever fails gives endpoint and ranges back.
        let side = Arc::new(Side {
            shared: Arc::clone(shared),
            actor,
            endpoints,
            ranges,
            resident: AtomicBool::new(false),
            inbound_links: InboundLinks::new(form.requests.slot(), record, spec),
            standing: StandingCell::default(),
            body: OnceLock::new(),
            faults: Faults::default(),
        });
        side.inbound_links.outputs.belongs_to(&side);
        let (requests, answers) = (shared.memory.inbox_range(inbox), shared.memory.outbox_range(outbox));
        SharedMemory::clear(&requests);
        SharedMemory::clear(&answers);
        let mut words = [0; line::WORDS];
        if holds {
            words[line::REF_COUNTS..][..2].copy_from_slice(&shared.open_ref_counts()?);
        }
        shared.memory.write_arena(state.at, &words)?;
        side.write_state(&state_words)?;
        shared.memory.write_arena(state.at + gauges, &vec![0; gauge_words])?;
        side.resident.store(true, Ordering::Release);
        for (priority, first) in
            (0..form.priorities).map(|priority| (priority, passed.get(priority).copied().unwrap_or(0)))
        {
            let first = in_priority(priority, first);
            record[endpoint::REQUESTS] = (inbox.at + priority * form.request_words()) as u32;
            record[endpoint::ANSWERS] = (outbox.at + priority * form.answer_words()) as u32;
            record[endpoint::POSITION] = first as u32;
            record[endpoint::POSITION + 1] = (first >> 32) as u32;
            record[endpoint::SKIP] = first as u32;
            shared.load(endpoints.of_priority(priority), &record, Limit::NONE)?;
        }
        shared.places().insert(actor, endpoints.first);
        let parts = Parts {
            actor,
            requests,
            answers,
            passed,
            letters: Arc::clone(&shared.letters),
            device: Arc::clone(&side) as Arc<dyn DeviceSide>,
        };
        let mailbox = body_config.channel.mailbox(form, [signature.message_id, signature.reply_id], parts)?;
        let body = Body::new(side, actor, state.at + gauges, kind, mailbox, body_config);
        shared.registry.enter(&body);
        shared.supervisor.watch(shared, &body).map_err(RingError::Supervisor)?;
        Ok(body)
    }

    /// Makes an actor that goes on where a [checkpoint](Actor::checkpoint) was taken, of this
    /// device or of any other: with its state, and with the messages that were not handled, in
    /// their order and priorities, under the same message ids and with as much time until their
    /// deadlines as they had. It is resident, and holds its messages until it is
    /// [activated](Actor::activate). The configuration has no state, for that is the checkpoint's.
    /// [`Checkpoint`] has an example.
    ///
    /// # Errors
    /// A handler of other layouts; a queue that is too small; as of [`launch`](Self::launch).
    #[track_caller]
    pub fn restore<H: Handler>(
        &self,
        handler: H,
        config: RingConfig,
        checkpoint: &Checkpoint,
    ) -> Result<Actor<H>> {
        self.0.check_not_capturing("an actor was restored")?;
        if !(H::State::PORTABLE && H::Message::PORTABLE && checkpoint.inbound_links.is_empty()) {
            return Err(CheckpointError::NotPortable { handler: handler.name() }.into());
        }
        self.restore_as(Arc::new(handler), body_config_of::<H>(&config), checkpoint)
    }

    pub(super) fn restore_as<H: Handler>(
        &self,
        handler: Arc<dyn ErasedHandler>,
        body_config: BodyConfig,
        checkpoint: &Checkpoint,
    ) -> Result<Actor<H>> {
        let actor: Actor<H> = self.begin_from(handler, body_config, checkpoint)?;
        actor.body.refill(&checkpoint.priorities)?;
        Ok(actor)
    }

    /// An actor that goes on from a checkpoint, but for its messages.
    pub(super) fn begin_from<H: Handler>(
        &self,
        handler: Arc<dyn ErasedHandler>,
        body_config: BodyConfig,
        checkpoint: &Checkpoint,
    ) -> Result<Actor<H>> {
        checkpoint.check(&handler.signature(), body_config.channel.capacity)?;
        let timed = checkpoint.held().any(|held| held.left_ns.is_some());
        let channel = ChannelConfig {
            deadlines: body_config.channel.deadlines || timed,
            priorities: body_config.channel.priorities.max(checkpoint.priorities.len()),
            ..body_config.channel
        };
        let form = channel.form::<H::Message, H::Reply>(self.0.protocol)?;
        let kind = ActorKind::new(handler, &form);
        let body_config = BodyConfig { channel, first_state: checkpoint.first_state.clone(), ..body_config };
        let passed = checkpoint.priorities.iter().map(|priority| priority.passed).collect();
        self.begin(kind, checkpoint.state.clone(), passed, body_config)
    }
}

/// How an actor is launched that goes on from a checkpoint.
pub(super) fn body_config_of<H: Handler>(config: &RingConfig) -> BodyConfig {
    BodyConfig {
        channel: config.channel,
        restart: config.restart,
        resume: config.resume,
        first_state: Vec::new(),
        held: Vec::new(),
        refers: !(H::State::PORTABLE && H::Message::PORTABLE),
        holds: H::State::HOLDS || H::Message::HOLDS,
        beside: config.beside,
    }
}

impl Body {
    /// Gives an actor that was just made the host's messages of a checkpoint.
    pub(super) fn refill(&self, priorities: &[HeldPriority]) -> Result<()> {
        let timed =
            priorities.iter().flat_map(|priority| &priority.messages).any(|held| held.left_ns.is_some());
        let now = if timed { self.side.device_clock()? } else { 0 };
        let mailbox = &self.mailbox;
        let slot = mailbox.form().requests.slot();
        let mut words = vec![0; slot.pitch()];
        let from = if slot.has_header() { PAYLOAD } else { 0 };
        let held = mailbox.rings().zip(priorities);
        for (priority, held) in
            held.flat_map(|(priority, held)| held.messages.iter().map(move |held| (priority, held)))
        {
            let deadline = held.left_ns.map_or(u64::MAX, |left| now.saturating_add(left));
            words[..from].copy_from_slice(&deadline_header(deadline)[..from]);
            words[from..][..held.words.len()].copy_from_slice(&held.words);
            // The queue holds them all, and no other thread has it yet.
            mailbox.send(priority, &words, None).map_err(RingError::Restore)?;
        }
        Ok(())
    }
}
