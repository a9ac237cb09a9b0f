//! Topics: messages to all that subscribe.

use super::actor::Actor;
use super::body::Body;
use super::chain::Chain;
use super::link::{Origin, next_serial};
use super::{RingRuntime, Shared};
use crate::address::Address;
use crate::channel::Sent;
use crate::error::{Result, RingError, SendError};
use crate::handler::Handler;
use crate::lifecycle::Lifecycle;
use crate::message::Message;
use crate::wire::record::link;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A topic: a message that is published to it goes to every actor that subscribes at that moment.
///
/// On the device each publisher has its own links to all subscribers, so publishers do not contend,
/// and a subscriber gets the messages of one publisher in order. A subscriber whose queue is full
/// blocks the publishers (see [`RingCtx::send`](crate::RingCtx::send)). A subscriber that ends is
/// removed.
///
/// Clones are the same topic. Its memory on the device is freed with the runtime.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn announce(ctx: &RingCtx, all: &mut Address<u32>, x: u32) {
///     ctx.send(all, x + 1);
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn multiply(_ctx: &RingCtx, factor: &mut u32, x: u32) -> u32 {
///     x * *factor
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let topic = runtime.topic::<u32>();
/// let publisher = runtime.launch(announce, RingConfig::default().state(topic.publisher()?))?;
/// let subscribers = [2, 3].map(|factor| runtime.launch(multiply, RingConfig::default().state(factor)));
/// for subscriber in &subscribers {
///     let subscriber = subscriber.as_ref().unwrap();
///     topic.subscribe(subscriber, 16)?;
///     subscriber.activate()?;
/// }
/// publisher.activate()?;
/// publisher.send(9)?;
/// let got = subscribers.each_ref().map(|subscriber| subscriber.as_ref().unwrap().outputs().recv());
/// assert_eq!(got, [Ok(20), Ok(30)]);
/// assert_eq!(topic.publish(&1)?, 2); // from the host
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Topic<M>(Arc<Inner<M>>);

struct Inner<M> {
    shared: Arc<Shared>,
    state: Mutex<TopicMembers<M>>,
}

struct TopicMembers<M> {
    publishers: Vec<Arc<Chain>>,
    subscribers: Vec<Subscriber<M>>,
}

struct Subscriber<M> {
    body: Weak<Body>,
    capacity: usize,
    send: Send<M>,
}

/// Sends from the host.
type Send<M> = Box<dyn Fn(&M) -> Result<Sent, SendError> + std::marker::Send>;

impl<M> Clone for Topic<M> {
    fn clone(&self) -> Self {
        Topic(Arc::clone(&self.0))
    }
}

impl<M: Message> fmt::Debug for Topic<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic").field("message", &M::NAME).finish_non_exhaustive()
    }
}

impl RingRuntime {
    /// A topic of messages, without subscribers.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Address, RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn announce(ctx: &RingCtx, all: &mut Address<u32>, x: u32) {
    ///     ctx.send(all, x);
    /// }
    ///
    /// # #[ring_kernel(crate = kiln_ring)]
    /// # fn keep(_ctx: &RingCtx, last: &mut u32, x: u32) -> u32 {
    /// #     *last = x;
    /// #     x
    /// # }
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let news = runtime.topic::<u32>();
    /// let reader = runtime.launch(keep, RingConfig::default().state(0))?;
    /// news.subscribe(&reader, 8)?;
    /// let writer = runtime.launch(announce, RingConfig::default().state(news.publisher()?))?;
    /// reader.activate()?;
    /// writer.activate()?;
    /// writer.send(5)?;
    /// assert_eq!(reader.outputs().recv()?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn topic<M: Message>(&self) -> Topic<M> {
        let state = TopicMembers { publishers: Vec::new(), subscribers: Vec::new() };
        Topic(Arc::new(Inner { shared: Arc::clone(&self.0), state: Mutex::new(state) }))
    }
}

impl<M> Subscriber<M> {
    fn actor(&self) -> Option<Arc<Body>> {
        let gone =
            |body: &Arc<Body>| matches!(body.life().stage, Lifecycle::Draining | Lifecycle::Terminated);
        self.body.upgrade().filter(|body| !gone(body))
    }
}

impl<M: Message> Topic<M> {
    /// The topic without the subscribers that have ended.
    fn state(&self) -> MutexGuard<'_, TopicMembers<M>> {
        // Every change is complete before anything can panic.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.subscribers.retain(|subscriber| subscriber.actor().is_some());
        state
    }

    /// The address for *one* actor that publishes. It reaches those who subscribe later, too.
    ///
    /// # Errors
    /// No place or memory left; failures of the device.
    pub fn publisher(&self) -> Result<Address<M>> {
        let (shared, mut state) = (&self.0.shared, self.state());
        if M::HOLDS {
            shared.count_references()?;
        }
        let at = shared.allocate_arena(link::WORDS)?.at;
        let serial = next_serial();
        let mut words = [0; link::WORDS];
        words[link::SERIAL] = serial;
        words[link::IS_TOPIC] = 1;
        shared.memory.write_arena(at, &words)?;
        let chain = Arc::new(Chain::new(at as u32));
        for subscriber in &state.subscribers {
            if let Some(body) = subscriber.actor() {
                body.add_inbound_link(subscriber.capacity, Origin::Topic(&chain))?;
            }
        }
        state.publishers.push(chain);
        Ok(Address::new(at as u32, serial))
    }

    /// From now on the actor gets what is published: up to `capacity` messages of each publisher on
    /// the device wait for it.
    ///
    /// # Errors
    /// The actor has ended, or belongs to another runtime; no place or memory left; failures of the
    /// device.
    pub fn subscribe<H: Handler<Message = M>>(&self, actor: &Actor<H>, capacity: usize) -> Result<()> {
        let body = &actor.body;
        if !Arc::ptr_eq(&body.side.shared, &self.0.shared) {
            return Err(RingError::Foreign { actor: actor.number() });
        }
        let mut state = self.state();
        for chain in &state.publishers {
            body.add_inbound_link(capacity, Origin::Topic(chain))?;
        }
        let channel = actor.channel().clone();
        let send = Box::new(move |message: &M| channel.send(message));
        state.subscribers.push(Subscriber { body: Arc::downgrade(body), capacity, send });
        Ok(())
    }

    /// Sends a message from the host to every subscriber; gives how many took it. Their replies
    /// come as those to any message of the host.
    ///
    /// # Errors
    /// The first refusal of a subscriber whose queue is full; the others got the message.
    pub fn publish(&self, message: &M) -> Result<usize, SendError> {
        let (state, mut sent, mut refused) = (self.state(), 0, None);
        for subscriber in &state.subscribers {
            match (subscriber.send)(message) {
                Ok(Sent::Queued(_)) => sent += 1,
                // It ended just now, or drops what comes.
                Err(SendError::Closed { .. }) | Ok(Sent::Dropped) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        refused.map_or(Ok(sent), Err)
    }

    /// How many actors subscribe.
    pub fn subscribers(&self) -> usize {
        self.state().subscribers.len()
    }
}
