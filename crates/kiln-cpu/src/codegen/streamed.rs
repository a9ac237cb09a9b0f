//! Which stores of a kernel may go past the caches (`lane_stream.rs`).

use kiln_cpu_primitives::streaming::STREAMS;
use kiln_ir::{Block, Kernel, Op, OpKind, Value};

/// The stores that may be streamed: each the only access to a view of the launch, and run once.
pub(super) fn streamed_stores(kernel: &Kernel) -> Vec<Op> {
    let mut ordered = false;
    let mut accessed: Vec<Value> = Vec::new();
    kernel.walk(|_, data| {
        ordered |= !tells_nobody(&data.kind);
        let describes = matches!(data.kind, OpKind::Extent(_) | OpKind::Stride(_));
        accessed.extend(data.operands.iter().filter(|_| !describes));
    });
    if !STREAMS || ordered {
        return Vec::new();
    }
    let params = &kernel.block(kernel.body).args;
    let once = |view: Value| accessed.iter().filter(|&&other| other == view).count() == 1;
    let mut stores = Vec::new();
    stores_outside_loops(kernel, kernel.body, &mut stores);
    stores.retain(|&store| {
        let view = kernel.op(store).view();
        params.contains(&view) && once(view)
    });
    stores
}

/// Whether no other thread learns from an operation that earlier stores are done.
fn tells_nobody(kind: &OpKind) -> bool {
    use OpKind::*;
    let kept = matches!(
        kind,
        Gather { .. } | Scatter { .. } | Store { .. } | Barrier | WarpBarrier | Yield | Condition | Assert(_)
    );
    kept || !kind.has_effect()
}

fn stores_outside_loops(kernel: &Kernel, block: Block, stores: &mut Vec<Op>) {
    for &op in &kernel.block(block).ops {
        let data = kernel.op(op);
        if let OpKind::Scatter { .. } = data.kind {
            stores.push(op);
        } else if let OpKind::If = data.kind {
            data.regions.iter().for_each(|&arm| stores_outside_loops(kernel, arm, stores));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The streamed stores of a kernel of two views, by the names of what they store.
    fn streamed(body: &str) -> usize {
        let text = format!(
            "kernel @k(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>, %z: mut view<f32, 1, global>, %n: i64) thread [64, 1, 1] {{
  %t = thread_id x : i64
  %pad = const 0.0 : f32
  %zero = const 0 : i64
  %one = const 1 : i64
  %v = gather.mask %x[%t] pad %pad : f32
{body}}}
"
        );
        let kernel = kiln_ir::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        streamed_stores(&kernel).len()
    }

    const STORE: &str = "  scatter.mask %y[%t] = %v\n";

    #[test]
    fn stores_that_are_the_only_access_to_their_view() {
        let each = usize::from(STREAMS);
        let other = STORE.replace("%y", "%z");
        assert_eq!(streamed(STORE), each);
        assert_eq!(streamed(&format!("{STORE}{other}")), 2 * each);
        let if_some =
            format!("  %c = lt %t, %n : bool\n  if %c {{\n{STORE}    yield\n  }} else {{\n    yield\n  }}\n");
        assert_eq!(streamed(&if_some), each);
        assert_eq!(streamed(&format!("  %e = extent %y axis 0 : i64\n{STORE}")), each);
        assert_eq!(streamed(&format!("{STORE}{STORE}{other}")), each);
        let load = "  %w = gather.mask %y[%t] pad %pad : f32\n";
        assert_eq!(streamed(&format!("{load}{STORE}")), 0);
        assert_eq!(streamed(&format!("  for %k = %zero to %n step %one {{\n{STORE}    yield\n  }}\n")), 0);
    }

    #[test]
    fn kernels_whose_threads_tell_others_what_is_done() {
        for tells in [
            "  %old = atomic.add.device.mask %z[%t] = %v : f32\n",
            "  fence.device\n",
            "  ordered_store.release.device.check %z[%t] = %v\n",
        ] {
            assert_eq!(streamed(&format!("{STORE}{tells}")), 0, "{tells}");
        }
        assert_eq!(streamed(&format!("  barrier\n{STORE}")), usize::from(STREAMS));
    }
}
