//! Every operation against values that are computed by other means, through the public device.

mod access;
mod arithmetic;
mod async_copies;
mod control;
mod device;
mod faults;
mod harness;
mod messages;
mod pointers;
mod programs;
mod reductions;
mod resident;
mod sanitizer;
mod schedule;
mod shapes;
mod threads;
