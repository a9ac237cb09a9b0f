//! Records: a tensor for each field.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Records};

#[derive(Clone, Copy, Debug, PartialEq, Record)]
#[kiln(crate = kiln_runtime)]
struct Event {
    r#type: u32,
    at: f32,
}

#[kernel(crate = kiln_runtime)]
fn counted(events: &mut Records<Event, 1>) {
    let i = thread_index();
    let kind = events.field::<u32>("type").get_or(i, 0);
    events.field_mut::<u32>("type").set_or_skip(i, kind + 1);
}

/// A field is found by its name, whether or not the name is a word of Rust.
#[test]
fn fields_with_names_of_keywords() {
    let device = Device::open("interp").unwrap();
    let mut events = device.records(&[Event { r#type: 7, at: 0.5 }; 3], [3]).unwrap();
    counted(&mut events).grid([1]).block([32]).launch(&device).unwrap();
    assert_eq!(events.field::<u32>("type").unwrap().to_vec().unwrap(), [8; 3]);
    let error = events.field::<u32>("kind").unwrap_err().to_string();
    assert_eq!(error, "`field of records`: expected type or at, got kind");
}

#[test]
fn tensors_that_are_no_records() {
    let device = Device::open("interp").unwrap();
    let kinds = device.zeros::<u32, 2>([2, 3]).unwrap().into_dyn();
    let times = device.zeros::<f32, 2>([3, 2]).unwrap().into_dyn();
    let error = Records::<Event, 2>::of_fields(vec![kinds.alias(), times]).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    assert_eq!(error.to_string(), "`field at of records`: expected shape [2, 3], got [3, 2]");

    let elsewhere = Device::open("interp:7").unwrap().zeros::<f32, 2>([2, 3]).unwrap().into_dyn();
    let error = Records::<Event, 2>::of_fields(vec![kinds, elsewhere]).unwrap_err().to_string();
    assert_eq!(error, "`the device of field at of records`: expected interp, got interp:7");
}
