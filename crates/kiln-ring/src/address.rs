//! Addresses: where an actor sends its messages.

use crate::layout::{Layout, layout_id};
use crate::message::Message;
use crate::outcome::Zeroed;
use kiln_lang::__private::{Raw, Zip};
use kiln_lang::{DeviceValue, IntoDevice, Val};
use std::fmt;
use std::marker::PhantomData;

/// Where messages `M` can be sent on the device: to one actor, or to all that subscribe to a topic.
///
/// The host makes addresses with [`Actor::inbound_link`](crate::Actor::inbound_link) and
/// [`Topic::publisher`](crate::Topic::publisher), and hands each to *one* actor, in its state or in
/// a message; that actor sends with [`RingCtx::send`](crate::RingCtx::send). So the messages to an
/// address have one sender and keep their order, and no two actors meet in one queue. For two
/// actors that send to a third, make two inbound links.
///
/// An address keeps its meaning when its actor ends: messages sent to it are dropped and counted.
pub struct Address<M> {
    pub(crate) link: u32,
    pub(crate) serial: u32,
    message: PhantomData<fn(M)>,
}

impl<M> Address<M> {
    /// The address of a link record in the arena.
    pub(crate) fn new(link: u32, serial: u32) -> Address<M> {
        Address { link, serial, message: PhantomData }
    }

    /// The null address. Sending to it does nothing.
    ///
    /// ```
    /// use kiln_ring::{Address, Layout};
    ///
    /// let mut words = [7; 2];
    /// Address::<u32>::none().encode(&mut words);
    /// assert!(words == [0; 2] && Address::<u32>::decode(&words).is_none());
    /// ```
    pub fn none() -> Address<M> {
        Address::new(0, 0)
    }

    /// Whether it is the null address.
    pub fn is_none(&self) -> bool {
        self.link == 0
    }
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Address<M> {}

impl<M> PartialEq for Address<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.link, self.serial) == (other.link, other.serial)
    }
}

impl<M> Eq for Address<M> {}

impl<M: Message> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address<{}>({:#x}, {})", M::NAME, self.link, self.serial)
    }
}

/// [`Address`] on the device.
///
/// ```
/// # use kiln_lang::prelude::*;
/// use kiln_ring::{Address, AddressVal, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// /// Whether there is anybody to send to.
/// fn is_last(next: &AddressVal<u32>) -> Val<bool> {
///     next.is_none()
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn ends(_ctx: &RingCtx, next: &mut Address<u32>, _x: u32) -> bool {
///     is_last(next)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(ends, RingConfig::default().state(Address::none()))?;
/// actor.activate()?;
/// assert_eq!(actor.ask(0)?, Some(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AddressVal<M> {
    pub(crate) link: Val<u32>,
    pub(crate) serial: Val<u32>,
    message: PhantomData<fn(M)>,
}

impl<M> AddressVal<M> {
    fn new(link: Val<u32>, serial: Val<u32>) -> AddressVal<M> {
        AddressVal { link, serial, message: PhantomData }
    }

    /// Whether it is the null address.
    #[track_caller]
    pub fn is_none(&self) -> Val<bool> {
        self.link.eq(0)
    }
}

impl<M> Clone for AddressVal<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for AddressVal<M> {}

impl<M> fmt::Debug for AddressVal<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AddressVal").field(&self.link).field(&self.serial).finish()
    }
}

impl<M> IntoDevice<AddressVal<M>> for AddressVal<M> {
    fn into_device(self) -> AddressVal<M> {
        self
    }
}

impl<M> DeviceValue for AddressVal<M> {
    fn map(&self, f: &mut dyn FnMut(Raw) -> Raw) -> Self {
        AddressVal::new(self.link.map(f), self.serial.map(f))
    }

    fn zip(&self, other: &Self, f: &mut dyn Zip) -> Self {
        AddressVal::new(self.link.zip(&other.link, f), self.serial.zip(&other.serial, f))
    }
}

/// The null address.
impl<M> Zeroed for AddressVal<M> {
    fn zeroed() -> Self {
        AddressVal::new(Val::zeroed(), Val::zeroed())
    }
}

impl<M: Message> Layout for Address<M> {
    const WORDS: usize = 2;
    const ID: u64 = layout_id("Address", &[("message", M::ID)]);
    const PORTABLE: bool = false;
    type Device = AddressVal<M>;

    fn encode(&self, words: &mut [u32]) {
        words[..2].copy_from_slice(&[self.link, self.serial]);
    }

    fn decode(words: &[u32]) -> Self {
        Address::new(words[0], words[1])
    }

    fn addresses(at: usize, found: &mut Vec<(usize, u64)>) {
        found.push((at, M::ID));
    }

    fn load(words: &[Val<u32>]) -> AddressVal<M> {
        AddressVal::new(words[0], words[1])
    }

    fn append(value: &AddressVal<M>, words: &mut Vec<Val<u32>>) {
        words.extend([value.link, value.serial]);
    }
}

impl<M: Message> Message for Address<M> {
    const NAME: &'static str = "Address";
}
