//! Snapshots: actors that send to each other, all at one moment.
//!
//! All actors are held before any of them is read, so that nothing moves: what was sent is handled
//! or lies in a queue. Of each there is a [`Checkpoint`] with its inbound links and what lies in
//! them.
//!
//! Addresses name places in the memory of the device on which they were made. A restored inbound
//! link has another address, so that the words of all states and messages are gone through, and the
//! old addresses in them replaced by the new ones. That is why a snapshot is restored as a whole,
//! and why no actor of it may have the address of one that is not part of it.

use super::body::{Body, Life};
use super::checkpoint::{Checkpoint, HeldInboundLink, opened, put, read_file, sealed, write_file};
use super::launch::body_config_of;
use super::limit::Limit;
use super::link::{InboundLink, Origin};
use super::{Actor, RingConfig, RingRuntime, Shared};
use crate::error::{CheckpointError, Result, RingError};
use crate::handler::{Addresses, Handler};
use crate::lifecycle::Lifecycle;
use crate::wire::command::Operation;
use crate::wire::record::{link, section_words};
use crate::wire::slot::{Kind, RingLayout, stamp};
use kiln_backend::Tenant as _;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

const MAGIC: &[u8; 8] = b"KILNSNAP";
const VERSION: u32 = 1;

/// Actors that send to each other as they were at one moment: their states, and the messages of the
/// host and of each other that they had been sent and had not handled, in their order.
///
/// [`RingRuntime::snapshot`] makes one while the actors work, and [`RingRuntime::restore_all`]
/// makes actors of one, on any device. Each message is handled once: before the snapshot, or by the
/// actors that are restored. Replies that were not received are not part of it.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, Snapshot, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
///     ctx.send(next, x * x);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
///     *sum += x;
///     *sum
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let last = runtime.launch(total, RingConfig::default().state(0))?;
/// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(64)?))?;
/// first.activate()?;
/// for x in 1..=3 {
///     first.send(x)?;
/// }
/// // Wherever the three are by now.
/// let bytes = runtime.snapshot(&[&first, &last])?.to_bytes();
///
/// let elsewhere = RingRuntime::new(&kiln_runtime::Device::open("interp")?)?;
/// let config = RingConfig::default();
/// let snapshot = Snapshot::from_bytes(&bytes)?;
/// let (first, last) = elsewhere.restore_all(&snapshot, ((square, config), (total, config)))?;
/// last.activate()?;
/// first.activate()?;
/// first.send(4)?;
/// let sums = [(); 4].map(|()| last.outputs().recv());
/// assert_eq!(sums, [Ok(1), Ok(5), Ok(14), Ok(30)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, Snapshot, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
///     ctx.send(next, x * x);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn add_one(_ctx: &RingCtx, x: u32) -> u32 {
///     x + 1
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let last = runtime.launch(add_one, RingConfig::default())?;
/// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(8)?))?;
/// last.activate()?;
/// first.activate()?;
///
/// // A snapshot in a file, from which another runtime goes on.
/// let folder = std::env::temp_dir().join(format!("kiln-doc-snapshot-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let snapshot = runtime.snapshot(&[&first, &last])?;
/// assert_eq!(snapshot.actors().len(), 2);
/// snapshot.save(folder.join("actors.kiln"))?;
/// let snapshot = Snapshot::load(folder.join("actors.kiln"))?;
/// let config = RingConfig::default();
/// let other = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let (first, last) = other.restore_all(&snapshot, ((square, config), (add_one, config)))?;
/// last.activate()?;
/// first.activate()?;
/// first.send(7)?;
/// assert_eq!(last.outputs().recv()?, 50);
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    actors: Vec<Checkpoint>,
}

impl Snapshot {
    /// The actors, in the order in which they were named.
    pub fn actors(&self) -> &[Checkpoint] {
        &self.actors
    }

    /// The snapshot as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 12]);
        put(&mut out, self.actors.len() as u64);
        for actor in &self.actors {
            let bytes = actor.to_bytes();
            put(&mut out, bytes.len() as u64);
            out.extend(bytes);
        }
        sealed(out)
    }

    /// The snapshot that these bytes are.
    ///
    /// # Errors
    /// They are truncated, damaged, of another format, or something else.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Snapshot, CheckpointError> {
        let (_, mut reader) = opened(bytes, MAGIC, VERSION)?;
        let count = reader.number()?;
        let mut actors = Vec::new();
        for _ in 0..count {
            let length = reader.number()?;
            actors.push(Checkpoint::from_bytes(reader.bytes(length)?)?);
        }
        reader.end()?;
        Ok(Snapshot { actors })
    }

    /// Writes the snapshot to a file, which is never there in part: see [`Checkpoint::save`].
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, path: impl AsRef<Path>) -> std::result::Result<(), CheckpointError> {
        write_file(path.as_ref(), &self.to_bytes())
    }

    /// Reads a snapshot from a file.
    ///
    /// # Errors
    /// As of [`from_bytes`](Self::from_bytes), and those of the file system.
    pub fn load(path: impl AsRef<Path>) -> std::result::Result<Snapshot, CheckpointError> {
        Snapshot::from_bytes(&read_file(path.as_ref())?)
    }
}

mod untyped {
    use super::{Arc, Body};

    /// An actor without its types.
    #[allow(missing_debug_implementations, reason = "it cannot be named outside of this crate")]
    pub struct Untyped(pub(super) Arc<Body>);

    pub trait Erase {
        fn erase(&self) -> Untyped;
    }
}

/// An [`Actor`] of any type, to be named in a [snapshot](RingRuntime::snapshot).
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, AnyActor, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn square(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
///     ctx.send(next, x * x);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn add_one(_ctx: &RingCtx, x: u32) -> u32 {
///     x + 1
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let last = runtime.launch(add_one, RingConfig::default())?;
/// let first = runtime.launch(square, RingConfig::default().state(last.inbound_link(8)?))?;
/// last.activate()?;
/// first.activate()?;
///
/// // Actors of different types in one list.
/// let all: [&dyn AnyActor; 2] = [&first, &last];
/// assert_eq!(runtime.snapshot(&all)?.actors().len(), 2);
/// // One alone sends to another that is not named.
/// assert!(runtime.snapshot(&all[..1]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AnyActor: untyped::Erase {}

impl<H: Handler> AnyActor for Actor<H> {}

impl<H: Handler> untyped::Erase for Actor<H> {
    fn erase(&self) -> untyped::Untyped {
        untyped::Untyped(Arc::clone(&self.body))
    }
}

impl RingRuntime {
    /// Some of this runtime's actors at one moment: all that send to each other. Active ones are
    /// held meanwhile, for two commands each and the copies. [`Snapshot`] has an example.
    ///
    /// # Errors
    ///
    /// An actor belongs to another runtime, is being terminated, is named twice or has the
    /// address of one that is not named; messages or states that refer to payloads; inbound links
    /// of topics or of other runtimes; a sender stopped half-way; the device does not answer.
    #[track_caller]
    pub fn snapshot(&self, actors: &[&dyn AnyActor]) -> Result<Snapshot> {
        self.0.check_not_capturing("a snapshot was taken")?;
        let bodies: Vec<Arc<Body>> = actors.iter().map(|actor| actor.erase().0).collect();
        for (i, body) in bodies.iter().enumerate() {
            if !Arc::ptr_eq(&body.side.shared, &self.0) {
                return Err(RingError::Foreign { actor: body.number });
            }
            if bodies[..i].iter().any(|other| other.number == body.number) {
                return Err(CheckpointError::Twice { actor: body.number }.into());
            }
            body.check_whole()?;
        }
        // Two snapshots at once lock their actors in the same order.
        let mut order: Vec<usize> = (0..bodies.len()).collect();
        order.sort_unstable_by_key(|&i| bodies[i].number);
        let mut lives: Vec<(usize, MutexGuard<'_, Life>)> =
            order.into_iter().map(|i| (i, bodies[i].life())).collect();
        for (i, life) in &lives {
            if matches!(life.stage, Lifecycle::Draining | Lifecycle::Terminated) {
                return Err(bodies[*i].illegal("a snapshot", life.stage, "not at its end"));
            }
            bodies[*i].lost()?;
        }
        let held = lives.iter_mut().try_for_each(|(i, life)| bodies[*i].hold_messages(life));
        let read = held.and_then(|()| self.0.read_all(&bodies));
        // All of them, also after one that could not.
        let mut back = Ok(());
        for (i, life) in &lives {
            let on = bodies[*i].let_go_on(life);
            back = back.and(on);
        }
        let snapshot = read?;
        back.map(|()| snapshot)
    }

    /// Makes actors that go on where a [snapshot](Self::snapshot) was taken, of this device or of
    /// any other: with their states, their messages and their inbound links, under other addresses,
    /// which stand in their states and messages in place of the old ones. They are resident and
    /// hold their messages until they are activated. Inbound links in the memory of a cluster come
    /// back as inbound links in device memory.
    ///
    /// A handler and a configuration are given for each actor, in the order of the snapshot: as
    /// pairs, in tuples of up to eight, or, where several in a row have the same handler, in a
    /// `Vec`.
    ///
    /// # Errors
    /// Another number of actors; handlers of other layouts; a queue that is too small; as of
    /// [`launch`](Self::launch).
    #[track_caller]
    pub fn restore_all<S: Stages>(&self, snapshot: &Snapshot, stages: S) -> Result<S::Actors> {
        self.0.check_not_capturing("actors were restored")?;
        let mut session = Session { runtime: self, left: &snapshot.actors, given: 0, made: Vec::new() };
        let actors = stages.make(&mut session)?;
        if !session.left.is_empty() {
            return Err(
                CheckpointError::Stages { actors: snapshot.actors.len(), given: session.given }.into()
            );
        }
        session.finish()?;
        Ok(actors)
    }
}

// ---- taking one

impl Shared {
    /// Reads actors that are held.
    fn read_all(&self, bodies: &[Arc<Body>]) -> Result<Snapshot> {
        let near = bodies
            .iter()
            .any(|body| body.side.inbound_links.list().iter().any(|inbound_link| inbound_link.near));
        if near {
            // What lies in the memory of workers is copied to the arena when they leave.
            self.leave()?;
        }
        let actors: Result<_> = bodies.iter().map(|body| self.read_whole(body)).collect();
        if near {
            self.come_back();
        }
        let snapshot = Snapshot { actors: actors? };
        let known: Vec<[u32; 2]> = snapshot
            .actors
            .iter()
            .flat_map(|actor| &actor.inbound_links)
            .map(|inbound_link| inbound_link.address)
            .collect();
        let known: HashMap<[u32; 2], [u32; 2]> =
            known.into_iter().map(|address| (address, address)).collect();
        for (body, actor) in bodies.iter().zip(&snapshot.actors) {
            let kind = body.kind();
            let handler = kind.handler.signature().name;
            let fits = renamed(actor, &kind.handler.addresses(), &known).is_some();
            if !fits {
                return Err(CheckpointError::Outside { actor: body.number, handler }.into());
            }
        }
        Ok(snapshot)
    }

    fn read_whole(&self, body: &Body) -> Result<Checkpoint> {
        let mut actor = body.read()?;
        for inbound_link in body.side.inbound_links.list().iter() {
            actor.inbound_links.push(self.read_inbound_link(body, inbound_link)?);
        }
        Ok(actor)
    }

    /// Reads an inbound link, and waits for a message that is being written.
    fn read_inbound_link(&self, body: &Body, inbound_link: &InboundLink) -> Result<HeldInboundLink> {
        let begun = Instant::now();
        let mut wait = Limit::after(body.side.patience()).wait();
        loop {
            let mut record = [0; link::WORDS];
            self.memory.read_arena(inbound_link.link.at, &mut record)?;
            let ring = RingLayout::new(body.side.inbound_links.slot, 1 << record[link::LOG2_SLOTS]);
            let tail = u64::from(record[link::TAIL]) | u64::from(record[link::TAIL + 1]) << 32;
            let waiting = record[link::TAIL].wrapping_sub(record[link::HEAD]);
            let head = tail - u64::from(waiting);
            let mut words = vec![0; ring.words()];
            self.memory.read_arena(self.ring_at(inbound_link), &mut words)?;
            let message = |position| {
                let mut payload = vec![0; ring.slot().payload_words()];
                let slot = &words[ring.at(position)..][..ring.slot().stride()];
                let kind = ring.slot().decode(ring.lap(position), slot, &mut payload);
                kind.filter(|kind| *kind == Kind::Request).map(|_| payload)
            };
            let messages: Vec<Option<Vec<u32>>> = (head..tail).map(message).collect();
            let Some(missing) = messages.iter().position(Option::is_none) else {
                return Ok(HeldInboundLink {
                    address: [inbound_link.link.at as u32, record[link::SERIAL]],
                    capacity: ring.slots(),
                    passed: head,
                    messages: messages.into_iter().flatten().collect(),
                });
            };
            if !wait.step() {
                let position = head + missing as u64;
                return Err(CheckpointError::Unfinished { position, waited: begun.elapsed() }.into());
            }
        }
    }

    /// The word of the arena at which an inbound link's ring begins, or its copy, once the grid has
    /// left.
    fn ring_at(&self, inbound_link: &InboundLink) -> usize {
        match self.config.clusters().filter(|_| inbound_link.near) {
            Some(cluster) => {
                let sections = self.grid().workers() * section_words(self.config.endpoints_per_worker);
                sections + inbound_link.endpoint.worker * cluster.words + inbound_link.ring.at
            }
            None => inbound_link.ring.at,
        }
    }
}

impl Body {
    /// Whether all there is to the actor are its words and addresses of actors of this runtime.
    fn check_whole(&self) -> Result<()> {
        if self.body_config.holds {
            let handler = self.kind().handler.signature().name;
            return Err(CheckpointError::NotPortable { handler }.into());
        }
        let list = self.side.inbound_links.list();
        let foreign = |inbound_link: &InboundLink| match (&inbound_link.chain, &inbound_link.sender) {
            (Some(_), _) => Some("the publisher of a topic"),
            (None, Some(_)) => Some("an actor of another runtime"),
            (None, None) => None,
        };
        match list.iter().find_map(foreign) {
            Some(from) => Err(CheckpointError::ForeignInboundLink { actor: self.number, from }.into()),
            None => Ok(()),
        }
    }
}

// ---- addresses

/// The same with other addresses; `None` if it has one that is not in the map.
fn renamed(
    actor: &Checkpoint,
    places: &Addresses,
    known: &HashMap<[u32; 2], [u32; 2]>,
) -> Option<Checkpoint> {
    let mut actor = actor.clone();
    let rename = |words: &mut [u32], places: &[(usize, u64)]| {
        places.iter().try_for_each(|(first, _)| {
            let address = words.get_mut(*first..first + 2)?;
            if address != [0, 0] {
                let new = known.get(&[address[0], address[1]])?;
                address.copy_from_slice(new);
            }
            Some(())
        })
    };
    rename(&mut actor.state, &places.state)?;
    rename(&mut actor.first_state, &places.state)?;
    let of_host =
        actor.priorities.iter_mut().flat_map(|priority| &mut priority.messages).map(|held| &mut held.words);
    let of_actors = actor.inbound_links.iter_mut().flat_map(|inbound_link| &mut inbound_link.messages);
    of_host.chain(of_actors).try_for_each(|words| rename(words, &places.message))?;
    Some(actor)
}

// ---- restoring one

/// Handlers and configurations for the actors of a [`Snapshot`], in their order:
/// `(handler, config)` for one, tuples of up to eight of these, and a `Vec` of any number with one
/// handler.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingError, RingRuntime, Snapshot, Stages, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// /// Actors of a snapshot, in a runtime of their own.
/// fn restored<S: Stages>(snapshot: &Snapshot, stages: S) -> Result<(RingRuntime, S::Actors), RingError> {
///     let device = kiln_runtime::Device::open("cpu").map_err(RingError::from)?;
///     let runtime = RingRuntime::new(&device)?;
///     let actors = runtime.restore_all(snapshot, stages)?;
///     Ok((runtime, actors))
/// }
///
/// let (runtime, config) = (RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?, RingConfig::default());
/// let (one, two) = (runtime.launch(double, config)?, runtime.launch(double, config)?);
/// one.send(3)?;
/// let snapshot = runtime.snapshot(&[&one, &two])?;
/// // Two of one handler, as a list.
/// let (_runtime, actors) = restored(&snapshot, vec![(double, config); 2])?;
/// actors[0].activate()?;
/// assert_eq!((actors.len(), actors[0].recv()?), (2, 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no handlers to restore actors with",
    note = "give a `(handler, RingConfig)` for each actor, in a tuple of up to eight or in a `Vec`"
)]
pub trait Stages {
    /// The actors.
    type Actors;

    /// Makes them. Called by [`RingRuntime::restore_all`] alone.
    #[doc(hidden)]
    fn make(self, session: &mut Session<'_>) -> Result<Self::Actors>;
}

/// The actors of a snapshot, while they are restored.
pub struct Session<'a> {
    runtime: &'a RingRuntime,
    left: &'a [Checkpoint],
    given: usize,
    made: Vec<Made<'a>>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("given", &self.given).finish_non_exhaustive()
    }
}

/// An actor that was made, without its messages.
struct Made<'a> {
    body: Arc<Body>,
    checkpoint: &'a Checkpoint,
    /// The addresses of its inbound links.
    addresses: Vec<[u32; 2]>,
}

impl Session<'_> {
    /// Makes the next actor.
    fn actor<H: Handler>(&mut self, handler: H, config: &RingConfig) -> Result<Actor<H>> {
        let Some((checkpoint, left)) = self.left.split_first() else {
            let actors = self.given;
            return Err(CheckpointError::Stages { actors, given: actors + 1 }.into());
        };
        (self.left, self.given) = (left, self.given + 1);
        let body_config = body_config_of::<H>(config);
        if body_config.holds {
            return Err(CheckpointError::NotPortable { handler: handler.name() }.into());
        }
        let actor: Actor<H> = self.runtime.begin_from(Arc::new(handler), body_config, checkpoint)?;
        let mut addresses = Vec::with_capacity(checkpoint.inbound_links.len());
        for inbound_link in &checkpoint.inbound_links {
            let size = (inbound_link.capacity, inbound_link.passed);
            let (at, serial) = actor.body.add_inbound_link_at(size, Origin::Actor)?;
            addresses.push([at, serial]);
        }
        self.made.push(Made { body: Arc::clone(&actor.body), checkpoint, addresses });
        Ok(actor)
    }

    /// Gives the actors their states and messages, now that all addresses are determined.
    fn finish(self) -> Result<()> {
        let known = self.made.iter().flat_map(|made| {
            made.checkpoint
                .inbound_links
                .iter()
                .map(|inbound_link| inbound_link.address)
                .zip(made.addresses.iter().copied())
        });
        let known: HashMap<[u32; 2], [u32; 2]> = known.collect();
        for made in &self.made {
            let (body, places) = (&made.body, made.body.kind().handler.addresses());
            let Some(actor) = renamed(made.checkpoint, &places, &known) else {
                return Err(CheckpointError::Damaged {
                    what: "an address in it is of none of its inbound links",
                }
                .into());
            };
            body.side.write_state(&actor.state)?;
            body.restart_with(actor.first_state.clone());
            for (inbound_link, held) in body.side.inbound_links.list().iter().zip(&actor.inbound_links) {
                self.runtime.0.fill_inbound_link(body, inbound_link, held)?;
            }
            // The worker's caches may hold what was there before.
            body.side.command(Operation::Settle, 0)?;
            body.refill(&actor.priorities)?;
        }
        Ok(())
    }
}

impl Shared {
    /// Writes messages to an inbound link that is still empty, of an actor that handles nothing.
    fn fill_inbound_link(
        &self,
        body: &Body,
        inbound_link: &InboundLink,
        held: &HeldInboundLink,
    ) -> Result<()> {
        let ring = RingLayout::new(body.side.inbound_links.slot, held.capacity);
        let mut words = vec![0; ring.words()];
        for (position, message) in (held.passed..).zip(&held.messages) {
            let slot = &mut words[ring.at(position)..][..ring.slot().stride()];
            // A deadline that never passes.
            let header = [u32::MAX, u32::MAX, 0];
            ring.slot().encode(header, message, stamp(ring.lap(position), Kind::Request), slot);
        }
        self.memory.write_arena(inbound_link.ring.at, &words)?;
        let tail = held.passed + held.messages.len() as u64;
        self.memory.write_arena(inbound_link.link.at + link::TAIL, &[tail as u32, (tail >> 32) as u32])
    }
}

impl<H: Handler> Stages for (H, RingConfig) {
    type Actors = Actor<H>;

    fn make(self, session: &mut Session<'_>) -> Result<Actor<H>> {
        session.actor(self.0, &self.1)
    }
}

impl<S: Stages> Stages for Vec<S> {
    type Actors = Vec<S::Actors>;

    fn make(self, session: &mut Session<'_>) -> Result<Vec<S::Actors>> {
        self.into_iter().map(|stage| stage.make(session)).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Stages),*> Stages for ($($name,)*) {
            type Actors = ($($name::Actors,)*);

            #[expect(non_snake_case, reason = "each value has the name of its type")]
            fn make(self, session: &mut Session<'_>) -> Result<Self::Actors> {
                let ($($name,)*) = self;
                Ok(($($name.make(session)?,)*))
            }
        }
    )*};
}
tuples! {
    (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G I)
}
