//! Errors, for a look at them: a fault of a kernel, and a call that would wait.

use kiln::prelude::*;

/// Reads an element that need not be there.
#[kernel]
pub fn pick(x: &Tensor<f32, 1>, index: Val<i32>, y: &mut Tensor<f32, 1>) {
    y.set(thread_index(), x.get(index.cast::<i64>()));
}

/// The error of picking an element of three, if there is one.
pub async fn fault(device: &Device, index: i32) -> kiln::Result<f32> {
    let x = device.tensor(&[10.0f32, 20.0, 30.0], [3])?;
    let mut y = device.zeros([1])?;
    pick(&x, index, &mut y).grid([1]).block([1]).launch(device)?;
    Ok(y.to_vec_async().await?[0])
}

/// What a page is told that calls what would wait.
pub fn blocking_calls(device: &Device) -> Vec<String> {
    let x = device.zeros::<f32, 1>([3]);
    let read = x.as_ref().map_or_else(|error| Err(error.clone()), |x| x.to_vec().map(drop));
    let closure = x.as_ref().map_or_else(|error| Err(error.clone()), |x| x.with_host(|_| ()));
    let calls = [read, closure, device.synchronize(), device.reopen().map(drop)];
    calls.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect()
}
