//! Running a handler over a list of messages: in the interpreter, one thread, the state in memory
//! as a resident kernel keeps it.

use kiln_backend::{Backend, BufferBinding, LaunchArguments, StreamId};
use kiln_interp::{Interp, Options};
use kiln_lang::prelude::*;
use kiln_ring::{ErasedHandler, Handler, Layout, RingCtx};

/// What became of one message.
#[derive(Debug, PartialEq)]
pub enum Outcome<R> {
    Reply(R),
    Silent,
    Failed(u32),
    /// A fault that its region caught: nothing else may be reported.
    Fault {
        overran: bool,
    },
}

/// Words that no handler leaves behind by itself.
const POISON: u32 = 0xdead_beef;

#[device(crate = kiln_lang)]
fn drive(
    handler: &dyn ErasedHandler,
    budget: Option<u32>,
    input: View<u32, 1>,
    state: ViewMut<u32, 1>,
    output: ViewMut<u32, 1>,
) {
    let s = handler.signature();
    let each = s.reply_words + 4;
    for i in 0..input.extent(0) / s.message_words {
        let message: Vec<Val<u32>> =
            (0..s.message_words).map(|k| input.get(i * s.message_words + k)).collect();
        let before: Vec<Val<u32>> = (0..s.state_words).map(|k| state.get(k)).collect();
        let ctx = RingCtx::new(val(7), i.cast::<u64>(), 1, state);
        let (site, outcome) = match budget {
            Some(budget) => handler.trace_in_fault_region(&ctx, val(budget), &before, &message),
            None => (val(0), handler.trace_words(&ctx, &before, &message)),
        };
        // SAFETY: there is one thread.
        unsafe {
            for k in 0..s.state_words {
                state.write(k, outcome.state[k]);
            }
            output.write(i * each, outcome.replies.cast::<u32>());
            output.write(i * each + 1, outcome.failed.cast::<u32>());
            output.write(i * each + 2, outcome.code);
            output.write(i * each + 3, site);
            for k in 0..s.reply_words {
                output.write(i * each + 4 + k, outcome.reply[k]);
            }
        }
    }
}

/// What a handler makes of the messages, and the state it ends with.
pub fn run<H: Handler>(
    handler: H,
    state: &H::State,
    messages: &[H::Message],
) -> (Vec<Outcome<H::Reply>>, H::State) {
    run_with(handler, None, state, messages)
}

/// As [`run`], each message in a fault region with a budget.
pub fn run_in_fault_region<H: Handler>(
    handler: H,
    budget: u32,
    state: &H::State,
    messages: &[H::Message],
) -> (Vec<Outcome<H::Reply>>, H::State) {
    run_with(handler, Some(budget), state, messages)
}

fn run_with<H: Handler>(
    handler: H,
    budget: Option<u32>,
    state: &H::State,
    messages: &[H::Message],
) -> (Vec<Outcome<H::Reply>>, H::State) {
    let s = handler.signature();
    let kernel = trace(s.name, Level::Thread { block: [1, 1, 1] }, |p| {
        let input = p.view::<u32, 1>("input", Default::default());
        let state = p.view_mut::<u32, 1>("state", Default::default());
        let output = p.view_mut::<u32, 1>("output", Default::default());
        drive(&handler, budget, input, state, output);
    });
    let kernel = kernel.unwrap_or_else(|e| panic!("{e}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));

    let mut input = vec![0; messages.len() * s.message_words];
    for (message, words) in messages.iter().zip(input.chunks_mut(s.message_words)) {
        message.encode(words);
    }
    let mut kept = vec![POISON; s.state_words];
    state.encode(&mut kept);
    let mut output = vec![POISON; messages.len() * (s.reply_words + 4)];
    launch(&kernel, &input, &mut [&mut kept, &mut output]);

    let outcomes = output.chunks(s.reply_words + 4).map(|words| match words[..4] {
        [0, 0, 0, site] if site != 0 => Outcome::Fault { overran: site == u32::MAX },
        [_, 1, code, 0] => Outcome::Failed(code),
        [1, 0, 0, 0] => Outcome::Reply(H::Reply::decode(&words[4..])),
        [0, 0, 0, 0] => Outcome::Silent,
        _ => panic!("flags {:x?}", &words[..4]),
    });
    (outcomes.collect(), H::State::decode(&kept))
}

/// Runs a kernel with one input and outputs, all of words.
fn launch(kernel: &kiln_ir::Kernel, input: &[u32], outputs: &mut [&mut Vec<u32>]) {
    let interp = Interp::new(Options::default());
    let stream = StreamId::default();
    let program = interp.compile(kernel).unwrap().program;
    let upload = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let ptr = interp.allocate(bytes.len().max(4), stream).unwrap();
        // SAFETY: the allocation is as large as the bytes.
        unsafe { interp.upload(ptr, &bytes, stream).unwrap() };
        (ptr, words.len() as u64)
    };
    let (x, n) = upload(input);
    let places: Vec<_> = outputs.iter().map(|o| upload(o)).collect();
    let input = LaunchArguments::new().view(BufferBinding::read(x), &[n]);
    let arguments = places.iter().fold(input, |all, (ptr, n)| all.view(BufferBinding::write(*ptr), &[*n]));
    // SAFETY: every view is an allocation of this device of its extent.
    unsafe { interp.launch(program.as_ref(), arguments.launch([1, 1, 1], stream)).unwrap() };
    for (out, (ptr, _)) in outputs.iter_mut().zip(places) {
        let mut bytes = vec![0u8; out.len() * 4];
        // SAFETY: the allocation is as large as the bytes.
        unsafe { interp.download(&mut bytes, ptr, stream).unwrap_or_else(|e| panic!("{e}\n{kernel}")) };
        for (word, bytes) in out.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }
}
