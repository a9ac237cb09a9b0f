//! Handlers: what an actor does with a message.

use crate::address::AddressVal;
use crate::layout::Layout;
use crate::message::{Message, State};
use crate::outcome::Outcome;
use crate::outgoing::{Outgoing, Sending};
use crate::payload::{ARENA, Array, ArrayMemory, ArrayRef, MessageSlot};
use crate::wire::slot::PRIORITY_SHIFT;
use kiln_lang::__private::Probe;
use kiln_lang::{
    DeviceRange, Elem, IntoDevice, IntoVal, Local, Num, Val, ViewMut, barrier, block_uniform, clock_ns,
    device_assert, fault_region, fault_region_into, lane_id, range_step, shuffle_xor, val,
};
use std::any::TypeId;
use std::ops::Range;

/// What a handler can read of its message's context, and how it sends others.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, SendOptions, ring_kernel};
///
/// /// The priority of a message and its position in it, as one number.
/// #[ring_kernel(crate = kiln_ring)]
/// fn place(ctx: &RingCtx, _x: u32) -> u32 {
///     ctx.priority() * 100 + ctx.message_id().cast::<u32>()
/// }
///
/// /// The numbers below n, by all threads that run the handler: their sum, the least and the greatest.
/// #[ring_kernel(crate = kiln_ring)]
/// fn numbers(ctx: &RingCtx, n: u32) -> u32 {
///     let mut sum: Val<u32> = 0;
///     let mut least: Val<u32> = 1000;
///     let mut greatest: Val<u32> = 0;
///     for i in ctx.share(n) {
///         sum += i;
///         least = least.minimum(i);
///         greatest = greatest.maximum(i);
///     }
///     ctx.sync();
///     ctx.uniform(ctx.sum(sum) * 10_000 + ctx.min(least) * 100 + ctx.max(greatest))
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(place, RingConfig::default().priorities(2))?;
/// actor.activate()?;
/// assert_eq!([actor.ask(0)?, actor.ask(0)?], [Some(0), Some(1)]);
/// assert_eq!(actor.ask_with(0, SendOptions::default().priority(1))?, Some(100));
/// let actor = runtime.launch(numbers, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(actor.ask(5)?, Some(10_00_04));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RingCtx {
    actor: Val<u32>,
    message_id: Val<u64>,
    lanes: u32,
    memory: ArrayMemory,
    outgoing: Outgoing,
    /// Where the fault region around the handler records a check that failed.
    faults: Option<Local<u64>>,
}

impl RingCtx {
    /// The context of one message: to which actor, which one, handled by how many threads, and the
    /// memory in which payloads lie. For tests of a handler: [`Handler::trace`] has one.
    pub fn new(actor: Val<u32>, message_id: Val<u64>, lanes: u32, arena: ViewMut<u32, 1>) -> RingCtx {
        let memory = ArrayMemory { arena, message: None };
        RingCtx { actor, message_id, lanes, memory, outgoing: Outgoing::new(), faults: None }
    }

    /// With the record of checks that fail.
    pub(crate) fn with_faults(mut self, faults: Local<u64>) -> RingCtx {
        self.faults = Some(faults);
        self
    }

    /// With the slot in which the arrays of the message lie.
    pub(crate) fn with_message(mut self, slot: Option<MessageSlot>) -> RingCtx {
        self.memory.message = slot;
        self
    }

    /// Where arrays lie.
    pub(crate) fn memory(&self) -> &ArrayMemory {
        &self.memory
    }

    /// The number of the actor that handles the message.
    pub fn actor(&self) -> Val<u32> {
        self.actor
    }

    /// The message's position in its queue, from 0: what a reply is matched with its request by.
    /// Where the actor has several priorities, the uppermost byte is the
    /// [priority](Self::priority).
    pub fn message_id(&self) -> Val<u64> {
        self.message_id
    }

    /// The priority that the message was sent in: 0 for the lowest, and for messages of
    /// other actors.
    pub fn priority(&self) -> Val<u32> {
        (self.message_id >> u64::from(PRIORITY_SHIFT)).cast::<u32>()
    }

    /// How many threads run the handler side by side: the 32 of a warp on a GPU, 1 elsewhere. All
    /// do the same, and must come to the same state and reply, unless they [share](Self::share)
    /// work.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Which of them this thread is, from 0.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// /// How many threads there are, counted by each of them.
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn threads(ctx: &RingCtx, _x: u32) -> bool {
    ///     let mut own: Val<u32> = 0;
    ///     if ctx.lane().lt(ctx.lanes()) {
    ///         own = 1;
    ///     }
    ///     ctx.sum(own).eq(ctx.lanes())
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(threads, RingConfig::default())?;
    /// actor.activate()?;
    /// assert_eq!(actor.ask(0)?, Some(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn lane(&self) -> Val<u32> {
        if self.lanes == 1 { val(0) } else { lane_id().cast() }
    }

    /// This thread's share of the numbers from 0 to before `n`: every [`lanes`](Self::lanes)-th,
    /// from its own number on.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Payload, RingCtx, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn sum_of_squares(ctx: &RingCtx, n: u32) -> u32 {
    ///     let mut sum: Val<u32> = 0;
    ///     for i in ctx.share(n) {
    ///         sum += i * i;
    ///     }
    ///     ctx.sum(sum)
    /// }
    /// ```
    #[track_caller]
    pub fn share(&self, n: impl IntoVal<u32>) -> DeviceRange<u32> {
        range_step(self.lane(), n.into_val(), self.lanes)
    }

    /// The sum of what the threads have, for all of them. Of floating-point numbers the order is
    /// fixed, and is not that of one thread.
    #[track_caller]
    pub fn sum<T: Num>(&self, value: Val<T>) -> Val<T> {
        self.all(value, |a, b| a + b)
    }

    /// The largest of what the threads have, for all of them.
    #[track_caller]
    pub fn max<T: Num>(&self, value: Val<T>) -> Val<T> {
        self.all(value, |a, b| a.maximum(b))
    }

    /// The smallest of what the threads have, for all of them.
    #[track_caller]
    pub fn min<T: Num>(&self, value: Val<T>) -> Val<T> {
        self.all(value, |a, b| a.minimum(b))
    }

    #[track_caller]
    fn all<T: Num>(&self, value: Val<T>, both: impl Fn(Val<T>, Val<T>) -> Val<T>) -> Val<T> {
        let mut value = value;
        let mut step = self.lanes / 2;
        while step > 0 {
            value = both(value, shuffle_xor(value, step));
            step /= 2;
        }
        // All lanes have the same value; this states it for the compiler.
        if self.lanes > 1 { block_uniform(value) } else { value }
    }

    /// The value that the first thread has, for all of them: what decides whether they
    /// [`sync`](Self::sync) must be such a value.
    #[track_caller]
    pub fn uniform<T: Elem>(&self, value: Val<T>) -> Val<T> {
        if self.lanes > 1 { block_uniform(value) } else { value }
    }

    /// Waits until all threads are here; what they wrote to arrays before, all see after.
    ///
    /// It is needed where a thread reads an element that another thread has replaced *for the same
    /// message*: after a loop over [`share`](Self::share) that replaces elements of an array,
    /// before one that reads others than its own. Code without `share` and [`lane`](Self::lane)
    /// needs none, since each thread replaces each element itself; nor does the next message: what
    /// all threads wrote for the last one is there.
    ///
    /// Conditions around it must be the same for all: results of [`sum`](Self::sum),
    /// [`max`](Self::max), [`min`](Self::min) or [`uniform`](Self::uniform), or numbers of the
    /// host.
    #[track_caller]
    pub fn sync(&self) {
        if self.lanes > 1 {
            barrier();
        }
    }

    /// Opens an array that a message or the state refers to, or that lies in it: a
    /// [`Payload`](crate::Payload) or an [`Inline`](crate::Inline).
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{Message, Payload, RingCtx, ring_kernel};
    /// #[derive(Message)]
    /// #[kiln(crate = kiln_ring)]
    /// struct Scaling { samples: Payload<f32>, factor: f32 }
    ///
    /// /// Multiplies an array in place; the host has it already, and finds it changed.
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn scale(ctx: &RingCtx, m: Scaling) {
    ///     let samples = ctx.array(&m.samples);
    ///     for i in ctx.share(samples.len()) {
    ///         samples.set(i, samples.get(i) * m.factor);
    ///     }
    /// }
    /// # use kiln_ring::{RingConfig, RingRuntime};
    /// # let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// # let actor = runtime.launch(scale, RingConfig::default())?;
    /// # actor.activate()?;
    /// let samples = runtime.payload_of(&[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(actor.ask(Scaling { samples: samples.clone(), factor: 0.5 })?, None);
    /// assert_eq!(samples.to_vec()?, [0.5, 1.0, 1.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn array<A: ArrayRef>(&self, array: &A) -> Array<A::Elem> {
        array.open(self.memory)
    }

    /// Sends a message to another actor, or to all that subscribe to a topic, without the host.
    ///
    /// A handler begins when there is room for all that it may send, and runs exactly once for a
    /// message, whatever else it does: change arrays in place, count, print. Until then the message
    /// remains at the head of its queue. All that it may send is, for each address in its state and
    /// in the message, one message for each place in the handler that sends messages of that type;
    /// a queue with fewer places must be empty. A message of another actor needs room for one
    /// [output](crate::Actor::outputs) too.
    ///
    /// A handler is a transaction: what it sends goes out once it has ended without a failure,
    /// together with its new state and its reply. So a full queue blocks its senders and no
    /// other actor. Actors that send to each other in a circle, all of whose queues are full, wait
    /// for ever.
    ///
    /// A place in a handler sends one message at most for each message that it handles: a device
    /// loop that reaches it twice is a fault. A loop on the host (`for k in 0..4`) is
    /// unrolled into four places.
    ///
    /// A message may refer to arrays ([`Payload`](crate::Payload)s): those that came with the
    /// message before the handler, which it may have changed, or those of its state. The receiver
    /// finds in them what was written before, and they live as long as there is a reference, in
    /// flight or held. What a handler that fails has replaced in an array remains replaced.
    ///
    /// Sending to [`Address::none`](crate::Address::none) does nothing. What is sent to an actor
    /// that has ended is counted ([`Actor::undelivered`](crate::Actor::undelivered)) and gone. An
    /// address belongs to the first actor that sends to it: for another, sending is a failure.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Address, Message, RingCtx, State, ring_kernel};
    ///
    /// #[derive(Message)]
    /// #[kiln(crate = kiln_ring)]
    /// struct Peak { at: u32, height: f32 }
    ///
    /// #[derive(State)]
    /// #[kiln(crate = kiln_ring)]
    /// struct Finder { at: u32, last: f32, next: Address<Peak> }
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn find(ctx: &RingCtx, s: &mut Finder, sample: f32) {
    ///     s.at += 1;
    ///     if s.last > 1.0 && sample < s.last {
    ///         ctx.send(&s.next, PeakVal { at: s.at - 1, height: s.last });
    ///     }
    ///     s.last = sample;
    /// }
    /// # let _ = find;
    /// ```
    #[track_caller]
    pub fn send<M: Message>(&self, to: &AddressVal<M>, message: impl IntoDevice<M::Device>) {
        self.outgoing.send(to, &message.into_device());
    }

    /// The places in the handler that send, once it has been traced.
    pub(crate) fn sendings(&self) -> Vec<Sending> {
        self.outgoing.places()
    }

    /// The device's clock, in nanoseconds: what deadlines are measured by.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn now(ctx: &RingCtx, _x: u32) -> u64 {
    ///     ctx.now_ns()
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(now, RingConfig::default())?;
    /// actor.activate()?;
    /// assert!(actor.ask(0)? <= actor.ask(0)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn now_ns(&self) -> Val<u64> {
        clock_ns()
    }
}

/// A handler of messages, to be traced into a resident kernel.
///
/// `#[ring_kernel]` makes a type and a value of it of a function:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Handler, RingCtx, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn running_sum(ctx: &RingCtx, total: &mut f32, x: f32) -> f32 {
///     *total += x;
///     *total
/// }
///
/// assert_eq!(running_sum.name(), "running_sum");
/// ```
///
/// The function's parameters are `&RingCtx`, `&mut` the state (left out by a handler without one)
/// and the message. It returns
///
/// - nothing: messages are not answered,
/// - `R`: every message is answered,
/// - `Option<R>`: some are,
/// - `Result<(), u32>`, `Result<R, u32>` or `Result<Option<R>, u32>`: `Err(code)` marks the actor
///   failed.
///
/// In the body, the names of the state, message and reply stand for their counterparts on the
/// device, and fields of their struct literals take host numbers. `Some`, `None`, `Ok` and `Err`
/// may depend on device values where they are returned: by `return`, or as what the body, or an arm
/// of an `if` or `match` that it ends in, evaluates to.
pub trait Handler: Copy + Send + Sync + 'static {
    /// What the actor keeps between messages; `()` for nothing.
    type State: State;
    /// What it is sent.
    type Message: Message;
    /// What it answers; `()` for nothing.
    type Reply: Layout;

    /// The function's name.
    fn name(&self) -> &'static str;

    /// Records what the handler does with a message. `state` consists of variables of the trace, so
    /// that assignments under device conditions hold.
    ///
    /// Runtimes call it, and a test of a handler may, in a kernel of its own and without a queue:
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Handler, RingCtx, ring_kernel};
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn largest(_ctx: &RingCtx, most: &mut u32, x: u32) -> Option<u32> {
    ///     if x > *most {
    ///         *most = x;
    ///         Some(x)
    ///     } else {
    ///         None
    ///     }
    /// }
    ///
    /// /// Of two messages, for a state of 10: how many are answered, and the state at the end.
    /// #[kernel(crate = kiln_runtime)]
    /// fn two(x: &Tensor<u32, 1>, out: &mut Tensor<u32, 1>) {
    ///     let mut most: Val<u32> = 10;
    ///     let ctx = RingCtx::new(val(0), val(0), 1, out);
    ///     let first = largest.trace(&ctx, &mut most, x.get(0));
    ///     let second = largest.trace(&ctx, &mut most, x.get(1));
    ///     let answered = first.reply.present.cast::<u32>() + second.reply.present.cast::<u32>();
    ///     out.set(thread_index(), answered * 100 + most);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let (x, mut out) = (device.tensor(&[7u32, 12], [2])?, device.uninit([1])?);
    /// two(&x, &mut out).grid([1]).block([1]).launch(&device)?;
    /// assert_eq!(out.to_vec()?, [112]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    fn trace(
        &self,
        ctx: &RingCtx,
        state: &mut <Self::State as Layout>::Device,
        message: <Self::Message as Layout>::Device,
    ) -> Outcome<<Self::Reply as Layout>::Device>;
}

/// The layouts that a handler works with.
///
/// A handler can be given the [checkpoints](crate::Checkpoint) of another one with equal IDs.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{ErasedHandler, Layout, RingCtx, Signature, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn mean(_ctx: &RingCtx, s: &mut [f32; 2], x: f32) -> f32 {
///     s[0] += x;
///     s[1] += 1.0;
///     s[0] / s[1]
/// }
///
/// let signature: Signature = mean.signature();
/// assert_eq!((signature.name, signature.message_holds), ("mean", false));
/// assert_eq!((signature.state_words, signature.message_words, signature.reply_words), (2, 1, 1));
/// assert_eq!((signature.state_id, signature.message_id), (<[f32; 2]>::ID, f32::ID));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The handler's name.
    pub name: &'static str,
    /// The state's [`Layout::ID`].
    pub state_id: u64,
    /// The state's [`Layout::WORDS`].
    pub state_words: usize,
    /// The message's [`Layout::ID`].
    pub message_id: u64,
    /// The message's [`Layout::WORDS`].
    pub message_words: usize,
    /// Whether messages refer to arrays: the message's [`Layout::HOLDS`].
    pub message_holds: bool,
    /// The reply's [`Layout::ID`].
    pub reply_id: u64,
    /// The reply's [`Layout::WORDS`].
    pub reply_words: usize,
}

/// Which words of a handler's values belong to [inline](crate::Inline) arrays: one range for each
/// array.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{ErasedHandler, Inline, Inlines, Message, RingCtx, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Frame { number: u64, samples: Inline<f32, 16> }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn first_sample(ctx: &RingCtx, frame: Frame) -> f32 {
///     ctx.array(&frame.samples).get(0)
/// }
///
/// // Behind the two words of the number.
/// assert_eq!(first_sample.inlines(), Inlines { message: vec![2..18], ..Inlines::default() });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inlines {
    /// Those of the message.
    pub message: Vec<Range<usize>>,
    /// Those of the reply.
    pub reply: Vec<Range<usize>>,
    /// Those of the state.
    pub state: Vec<Range<usize>>,
}

/// Which words of a handler's values refer to arrays in device memory: of each
/// [`Payload`](crate::Payload), the number of the first of its three words.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{ErasedHandler, Message, Payload, References, RingCtx, ring_kernel};
///
/// #[derive(Message)]
/// #[kiln(crate = kiln_ring)]
/// struct Job { number: u32, tables: [Payload<f32>; 2] }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn compared(ctx: &RingCtx, job: Job) -> bool {
///     let [a, b] = job.tables;
///     ctx.array(&a).len().eq(ctx.array(&b).len())
/// }
///
/// let found: References = compared.references();
/// assert_eq!((&found.message[..], found.any()), (&[1, 4][..], true));
/// assert!(found.reply.is_empty() && found.state.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Those of the message.
    pub message: Vec<usize>,
    /// Those of the reply.
    pub reply: Vec<usize>,
    /// Those of the state.
    pub state: Vec<usize>,
}

impl References {
    /// Whether messages or replies have any; those of the state do not count.
    pub fn any(&self) -> bool {
        !(self.message.is_empty() && self.reply.is_empty())
    }
}

/// Where a handler's values hold [addresses](crate::Address): of each, the number of the first of
/// its two words, and the [`Layout::ID`] of the messages that it takes.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Address, Addresses, ErasedHandler, Layout, RingCtx, State, ring_kernel};
///
/// #[derive(State)]
/// #[kiln(crate = kiln_ring)]
/// struct Stage { handled: u32, next: Address<f32> }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn pass_on(ctx: &RingCtx, s: &mut Stage, x: f32) {
///     s.handled += 1;
///     ctx.send(&s.next, x);
/// }
///
/// assert_eq!(pass_on.addresses(), Addresses { message: vec![], state: vec![(1, f32::ID)] });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Those of the message.
    pub message: Vec<(usize, u64)>,
    /// Those of the state.
    pub state: Vec<(usize, u64)>,
}

/// What an [`ErasedHandler`] recorded, as device values of the trace.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::ErasedOutcome;
///
/// /// What a queue would answer: 0 for no reply, 1 for a reply, 2 for a failure.
/// fn kind(outcome: &ErasedOutcome) -> Val<u32> {
///     select(outcome.failed, 2u32, outcome.replies.cast::<u32>())
/// }
/// # let _ = kind;
/// ```
#[derive(Clone, Debug)]
pub struct ErasedOutcome {
    /// The words of the state after the message.
    pub state: Vec<Val<u32>>,
    /// Whether there is a reply.
    pub replies: Val<bool>,
    /// The words of the reply; zeros if there is none.
    pub reply: Vec<Val<u32>>,
    /// Whether the handler failed.
    pub failed: Val<bool>,
    /// The number of the failure.
    pub code: Val<u32>,
}

/// A [`Handler`] without its types, in words: what a resident kernel with several kinds of actors
/// is traced from.
///
/// Every [`Handler`] is one. A test runs handlers of any types so, in a kernel of its own:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{ErasedHandler, ErasedOutcome, RingCtx, ring_kernel};
/// use kiln_runtime::{Device, Tensor};
/// use std::any::Any;
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn sum(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
///     *total += x;
///     *total
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn share(_ctx: &RingCtx, left: &mut u32, parts: u32) -> u32 {
///     *left /= parts;
///     *left
/// }
///
/// /// A message after another one, for a state of 60: its reply, and 1000 more for a fault.
/// fn second(handler: &dyn ErasedHandler, ctx: &RingCtx, messages: [Val<u32>; 2]) -> Val<u32> {
///     let first: ErasedOutcome = handler.trace_words(ctx, &[val(60)], &messages[..1]);
///     let budget = val(100);
///     let (site, then) = handler.trace_in_fault_region(ctx, budget, &first.state, &messages[1..]);
///     select(site.ne(0), then.state[0] + 1000, then.reply[0])
/// }
///
/// #[kernel(crate = kiln_runtime)]
/// fn run(x: &Tensor<u32, 2>, summed: &mut Tensor<u32, 1>, shared: &mut Tensor<u32, 1>) {
///     let i = thread_index();
///     let messages = [x.get((i, 0)), x.get((i, 1))];
///     summed.set(i, second(&sum, &RingCtx::new(val(0), val(1), 1, summed), messages));
///     shared.set(i, second(&share, &RingCtx::new(val(0), val(1), 1, shared), messages));
/// }
///
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1u32, 2, 3, 0], [2, 2])?;
/// let (mut summed, mut shared) = (device.uninit([2])?, device.uninit([2])?);
/// run(&x, &mut summed, &mut shared).grid([1]).block([2]).launch(&device)?;
/// assert_eq!(summed.to_vec()?, [63, 63]);
/// // After the division by zero the state is what it was: 60 / 3.
/// assert_eq!(shared.to_vec()?, [30, 1020]);
///
/// // What there is to know of a handler whose types are not known.
/// let handlers: [&dyn ErasedHandler; 2] = [&sum, &share];
/// for handler in handlers {
///     assert_eq!(handler.signature().state_words, 1);
///     assert!(handler.inlines().state.is_empty() && handler.addresses().state.is_empty());
///     assert!(!handler.references().any());
/// }
/// assert_eq!(handlers[0].identity(), sum.type_id());
/// assert_ne!(handlers[0].identity(), handlers[1].identity());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait ErasedHandler: Send + Sync {
    /// The handler's layouts.
    fn signature(&self) -> Signature;

    /// The arrays in its values. Of each, the first word says where it begins and the second one of
    /// what; the others say nothing.
    fn inlines(&self) -> Inlines;

    /// The arrays in device memory that its messages, replies and states refer to.
    fn references(&self) -> References;

    /// The addresses in its messages and states: all that it can send to.
    fn addresses(&self) -> Addresses;

    /// Identifies the handler in this process.
    fn identity(&self) -> TypeId;

    /// Records what the handler does with a message. `state` and `message` have as many words as
    /// the signature says.
    fn trace_words(&self, ctx: &RingCtx, state: &[Val<u32>], message: &[Val<u32>]) -> ErasedOutcome;

    /// As [`trace_words`](Self::trace_words), inside a [fault region](fault_region()) with a budget
    /// of loop turns (0 for none): gives the site of the fault too, or 0. After a fault the state
    /// is what it was, there is no reply, and the handler did not fail by itself.
    fn trace_in_fault_region(
        &self,
        ctx: &RingCtx,
        budget: Val<u32>,
        state: &[Val<u32>],
        message: &[Val<u32>],
    ) -> (Val<u32>, ErasedOutcome);
}

impl<H: Handler> ErasedHandler for H {
    fn identity(&self) -> TypeId {
        TypeId::of::<H>()
    }

    fn signature(&self) -> Signature {
        Signature {
            name: self.name(),
            state_id: H::State::ID,
            state_words: H::State::WORDS,
            message_id: H::Message::ID,
            message_words: H::Message::WORDS,
            message_holds: H::Message::HOLDS,
            reply_id: H::Reply::ID,
            reply_words: H::Reply::WORDS,
        }
    }

    fn inlines(&self) -> Inlines {
        let mut found = Inlines::default();
        H::Message::inlines(0, &mut found.message);
        H::Reply::inlines(0, &mut found.reply);
        H::State::inlines(0, &mut found.state);
        found
    }

    fn references(&self) -> References {
        let mut found = References::default();
        H::Message::references(0, &mut found.message);
        H::Reply::references(0, &mut found.reply);
        H::State::references(0, &mut found.state);
        found
    }

    fn addresses(&self) -> Addresses {
        let mut found = Addresses::default();
        H::Message::addresses(0, &mut found.message);
        H::State::addresses(0, &mut found.state);
        found
    }

    fn trace_words(&self, ctx: &RingCtx, state: &[Val<u32>], message: &[Val<u32>]) -> ErasedOutcome {
        let (state, outcome) = traced(self, ctx, H::State::load(state), H::Message::load(message));
        erased::<H>(&state, &outcome)
    }

    fn trace_in_fault_region(
        &self,
        ctx: &RingCtx,
        budget: Val<u32>,
        state: &[Val<u32>],
        message: &[Val<u32>],
    ) -> (Val<u32>, ErasedOutcome) {
        let (before, message) = (H::State::load(state), H::Message::load(message));
        let fallback = (before, Outcome::silent());
        let body = || {
            let traced = traced(self, ctx, before, message);
            arrays_stay::<H>(state, &traced.0);
            traced
        };
        let (site, (state, outcome)) = match &ctx.faults {
            Some(record) => fault_region_into(record, budget, fallback, body),
            None => fault_region(budget, fallback, body),
        };
        (site, erased::<H>(&state, &outcome))
    }
}

/// The state after a message, and what became of it.
type Traced<H> =
    (<<H as Handler>::State as Layout>::Device, Outcome<<<H as Handler>::Reply as Layout>::Device>);

fn traced<H: Handler>(
    handler: &H,
    ctx: &RingCtx,
    state: <H::State as Layout>::Device,
    message: <H::Message as Layout>::Device,
) -> Traced<H> {
    let mut state = Probe(state).variable();
    let outcome = handler.trace(ctx, &mut state, message);
    (Probe(state).snapshot(), outcome)
}

/// Fails the actor if an array of its state stands where another was: they lie where they lie, and
/// to copy one over the other would lose that.
#[track_caller]
fn arrays_stay<H: Handler>(before: &[Val<u32>], after: &<H::State as Layout>::Device) {
    let mut arrays = Vec::new();
    H::State::inlines(0, &mut arrays);
    let after = H::State::store(after);
    for array in &arrays {
        let (own, at) = (before[array.start], after[array.start]);
        let first = own - array.start as u32;
        let others = (at - first).lt(before.len() as u32) & at.ne(own);
        device_assert!(
            !(others & after[array.start + 1].eq(ARENA)),
            "an array of the state is put in the place of another: copy its elements, or keep payloads"
        );
    }
}

fn erased<H: Handler>(
    state: &<H::State as Layout>::Device,
    outcome: &Outcome<<H::Reply as Layout>::Device>,
) -> ErasedOutcome {
    ErasedOutcome {
        state: H::State::store(state),
        replies: outcome.reply.present,
        reply: H::Reply::store(&outcome.reply.value),
        failed: outcome.failed,
        code: outcome.code,
    }
}
