//! Changing what the nodes of a graph use: other tensors, other numbers.

use crate::activity::CallSite;
use crate::args::Use;
use crate::buffer::Buffer;
use crate::capture::node::{Launched, Place, Recorded, Work};
use crate::capture::plan::ReplayPlan;
use crate::dyn_kernel::{Arg, DynArg};
use crate::error::{Error, Result};
use crate::graph::{Graph, GraphLaunch};
use crate::params::ParamInfo;
use crate::stream::same_device;
use crate::tensor::DynTensor;
use kiln_backend::BufferBinding;
use kiln_ir::Scalar;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

impl Graph {
    /// Gives a launch another argument: a number, a tensor (`&`), or a tensor that it writes
    /// (`&mut`). Replays from now on use it; those that are enqueued already do not.
    ///
    /// The launch is a [`GraphNode`](crate::GraphNode) or the name of a kernel that is launched
    /// once. [`replace`](Self::replace) exchanges a tensor wherever the graph uses it.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn scale(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Val<f32>) {
    ///     let at = program_id(0) * 4;
    ///     y.tile(at, 4).store(x.tile(at, 4).load(0.0) * by);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let (x, mut y) = (device.tensor(&[1.0f32, 2.0], [2])?, device.uninit([2])?);
    /// let (mut graph, ()) = device.graph(|_| scale(&x, &mut y, 2.0).launch(&device))?;
    /// graph.set("scale", "by", 5.0f32)?;
    /// graph.set("scale", "x", &device.tensor(&[3.0f32, 4.0], [2])?)?;
    /// graph.replay()?;
    /// assert_eq!(y.to_vec()?, [15.0, 20.0]);
    ///
    /// let longer = device.zeros::<f32, 1>([3])?;
    /// let error = graph.set("scale", "x", &longer).unwrap_err().to_string();
    /// assert!(error.ends_with("argument `x` of `scale` must be of shape [2], as at the capture, got [3]"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::GraphUpdate`] where there is no such launch or argument, or several launches of the
    /// kernel, and for numbers of a kernel with `unsafe` code, as many of the library's are: what
    /// that relies on was checked for the number of the capture alone; [`Error::Argument`] for one
    /// of another type or shape, or of which something is not true that the kernel was compiled
    /// for; [`Error::DeviceMismatch`]; [`Error::Overlap`]. Then the graph is as it was. Failures of
    /// the device: then the graph has the argument.
    #[track_caller]
    pub fn set<'l, 'a>(
        &mut self,
        launch: impl Into<GraphLaunch<'l>>,
        argument: &str,
        value: impl Into<DynArg<'a>>,
    ) -> Result<()> {
        self.set_argument(launch.into(), argument, &value.into().0, Location::caller())
    }

    /// Takes a tensor in the place of another wherever the graph reads it, or parts and views of
    /// it, in library functions too. Replays from now on use it.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// let device = Device::open("interp")?;
    /// let [x, other] = [[1.0f32, 2.0], [3.0, 4.0]].map(|data| device.tensor(&data, [2]).unwrap());
    /// let (mut graph, copy) = device.graph(|_| x.copy())?;
    /// graph.replace(&x, &other)?;
    /// graph.replay()?;
    /// assert_eq!(copy.to_vec()?, [3.0, 4.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::GraphUpdate`] where the graph does not use `old`, or something uses a part of it
    /// together with what is outside of it; [`Error::Argument`] where it writes `old` (which
    /// [`replace_mut`](Self::replace_mut) is for), where `new` has another type, shape or strides,
    /// or where a kernel was compiled for more than is true of `new`; [`Error::WrongDevice`];
    /// [`Error::Overlap`]. Then the graph is as it was. Failures of the device: then the graph has
    /// the tensor.
    #[track_caller]
    pub fn replace(&mut self, old: &impl AsRef<DynTensor>, new: &impl AsRef<DynTensor>) -> Result<()> {
        let (old, new, site) = (old.as_ref(), new.as_ref(), Location::caller());
        self.exchange(&Exchange { old, new, mutable: false, site })
    }

    /// [`replace`](Self::replace) for a tensor that the graph writes.
    ///
    /// # Errors
    /// As of [`replace`](Self::replace).
    #[track_caller]
    pub fn replace_mut(
        &mut self,
        old: &impl AsRef<DynTensor>,
        new: &mut impl AsRef<DynTensor>,
    ) -> Result<()> {
        let (old, new, site) = (old.as_ref(), (*new).as_ref(), Location::caller());
        self.exchange(&Exchange { old, new, mutable: true, site })
    }

    fn set_argument(
        &mut self,
        launch: GraphLaunch<'_>,
        argument: &str,
        value: &Arg<'_>,
        site: CallSite,
    ) -> Result<()> {
        let (number, launch) = self.find(launch, site)?;
        let kernel = &launch.kernel;
        let Some(at) = kernel.params.iter().position(|param| param.name == argument) else {
            let names: Vec<String> = kernel.params.iter().map(|p| format!("`{}`", p.name)).collect();
            let what = format!(
                "`{}` has no argument `{argument}` that can change, but {}: what is known when a kernel is compiled is \
                 part of its code",
                kernel.name,
                if names.is_empty() { "none at all".to_owned() } else { names.join(", ") }
            );
            return Err(Error::GraphUpdate { what, location: site });
        };
        let param = &kernel.params[at];
        if let (Arg::Number(_), Some(promise)) = (value, &kernel.promise) {
            let what = format!(
                "`{argument}` of `{}` stays as it was captured: {}: {}, which the code around the launch promised for \
                 that number; capture again with another",
                kernel.name, promise.location, promise.reason
            );
            return Err(Error::GraphUpdate { what, location: site });
        }
        let mut launch = launch.clone();
        launch.set(at, param, value, self, site)?;
        self.change(vec![(number, Work::Launch(Box::new(launch)))])
    }

    /// The launch that is meant, and its number.
    fn find(&self, launch: GraphLaunch<'_>, site: CallSite) -> Result<(usize, &Launched)> {
        let refuse = |what| Err(Error::GraphUpdate { what, location: site });
        let mut launches = self.nodes.iter().enumerate().filter_map(|(number, node)| match &node.work {
            Work::Launch(launch) => Some((number, &**launch)),
            Work::Copy { .. } | Work::Fill { .. } => None,
        });
        match launch {
            GraphLaunch::Node(node) => {
                let found = launches.find(|(number, _)| (self.number, *number) == (node.graph, node.index));
                found.map_or_else(|| refuse("the node is no launch of this graph".to_owned()), Ok)
            }
            GraphLaunch::Kernel(name) => {
                let named: Vec<_> = launches.filter(|(_, launch)| &*launch.kernel.name == name).collect();
                match named[..] {
                    [only] => Ok(only),
                    [] => refuse(format!("the graph launches no kernel `{name}`")),
                    _ => refuse(format!(
                        "the graph launches `{name}` {} times: say which by its `GraphNode`, from `Capture::last` or \
                         `Graph::launches`",
                        named.len()
                    )),
                }
            }
        }
    }

    fn exchange(&mut self, exchange: &Exchange<'_>) -> Result<()> {
        same_device("the tensor that takes the place of another", exchange.new.device(), &self.device)?;
        let mut changed = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if let Some(work) = exchange.work(node)? {
                changed.push((number, work));
            }
        }
        if changed.is_empty() {
            return Err(exchange.refused("the graph does not use the tensor that is to be replaced"));
        }
        self.change(changed)
    }

    /// Changes nodes, here and on the device.
    fn change(&mut self, changed: Vec<(usize, Work)>) -> Result<()> {
        let numbers: Vec<usize> = changed.iter().map(|(number, _)| *number).collect();
        for (number, work) in changed {
            self.nodes[number].work = work;
        }
        let before = std::mem::replace(&mut self.plan, ReplayPlan::new(&self.nodes));
        match self.on_device.take() {
            Some(mut graph) if before.after == self.plan.after => {
                for number in numbers {
                    // SAFETY: what changed was compared with the kernel's parameters and facts.
                    if !unsafe { graph.update(number, self.nodes[number].for_backend()) }? {
                        return self.build();
                    }
                }
                self.on_device = Some(graph);
                Ok(())
            }
            // The tensors that the nodes share determine their order, or it could not be built
            // before.
            _ => self.build(),
        }
    }
}

impl Launched {
    /// Puts an argument at the place of a parameter.
    fn set(
        &mut self,
        at: usize,
        param: &ParamInfo,
        value: &Arg<'_>,
        graph: &Graph,
        location: CallSite,
    ) -> Result<()> {
        let kernel = &self.kernel.name;
        let refuse = |expected: String, given: String| Error::Argument {
            kernel: kernel.to_string(),
            argument: param.name.clone(),
            expected,
            given,
            location,
        };
        let given = value.given(param);
        if given != param.given {
            return Err(refuse(param.given.to_string(), given.to_string()));
        }
        let (view, numbers) = (value.view(param), value.numbers());
        let rank = given.view().map_or(0, |(rank, _)| rank);
        let (old, new) = (&self.args.numbers_of(param)[..rank], &numbers[..rank]);
        if old != new {
            return Err(refuse(format!("of shape {old:?}, as at the capture"), format!("{new:?}")));
        }
        if let Some(fact) = param.violated(view.map(|view| view.address()), &numbers) {
            return Err(refuse(param.given.to_string(), untrue(&fact)));
        }
        match (value, view) {
            (Arg::Number(_), _) | (_, None) => self.args.set_numbers(param, &numbers),
            (Arg::View { tensor, .. }, Some(view)) => {
                if tensor.device() != &graph.device {
                    return Err(Error::DeviceMismatch {
                        kernel: kernel.to_string(),
                        argument: param.name.clone(),
                        found: tensor.device().id().to_owned(),
                        expected: graph.device.id().to_owned(),
                    });
                }
                let used = Use { buffer: tensor.buffer().clone(), param: at };
                self.args.set_view(param, &numbers, used, view);
            }
        }
        self.args.check_overlaps(&self.kernel)
    }
}

fn untrue(fact: &str) -> String {
    format!("one of which it is not true that {fact}, which the kernel was compiled for")
}

/// A tensor that takes the place of another.
struct Exchange<'a> {
    old: &'a DynTensor,
    new: &'a DynTensor,
    /// Whether the new one may be written.
    mutable: bool,
    site: CallSite,
}

impl Exchange<'_> {
    /// What a node does with the new tensor, if it uses the old one.
    fn work(&self, node: &Recorded) -> Result<Option<Work>> {
        match &node.work {
            Work::Launch(launch) => Ok(self.launch(launch)?.map(|launch| Work::Launch(Box::new(launch)))),
            Work::Copy { to, from, bytes } => {
                let (moved_to, moved_from) =
                    (self.place(to, *bytes, true)?, self.place(from, *bytes, false)?);
                if moved_to.is_none() && moved_from.is_none() {
                    return Ok(None);
                }
                let to = moved_to.unwrap_or_else(|| to.clone());
                let from = moved_from.unwrap_or_else(|| from.clone());
                if Arc::ptr_eq(&to.buffer, &from.buffer) && to.offset.abs_diff(from.offset) < *bytes {
                    return Err(self.refused("a copy in the graph would read and write the same memory"));
                }
                Ok(Some(Work::Copy { to, from, bytes: *bytes }))
            }
            Work::Fill { to, byte, bytes } => {
                let moved = self.place(to, *bytes, true)?;
                Ok(moved.map(|to| Work::Fill { to, byte: *byte, bytes: *bytes }))
            }
        }
    }

    fn launch(&self, launch: &Launched) -> Result<Option<Launched>> {
        let mut moved: Option<Launched> = None;
        for (used, at) in launch.args.tensors() {
            let bytes = launch.args.bytes(used, at, &launch.kernel);
            if !self.touches(&used.buffer, &bytes) {
                continue;
            }
            let param = &launch.kernel.params[used.param];
            let numbers = launch.args.numbers_of(param);
            if !self.has_all(&bytes) || !(self.is_whole() || self.is_same_view(at, numbers)) {
                return Err(self.refused(&format!(
                    "`{}` of `{}` uses a part of the tensor that is to be replaced, and what is outside of it",
                    param.name, launch.kernel.name
                )));
            }
            self.check(launch, param)?;
            let byte_offset = at.byte_offset - self.old.byte_offset() as u64 + self.new.byte_offset() as u64;
            let view = BufferBinding { byte_offset, ..self.new.binding(at.written) };
            if let Some(fact) = param.violated(Some(view.address()), numbers) {
                return Err(self.argument(launch, param, param.given.to_string(), untrue(&fact)));
            }
            let used = Use { buffer: self.new.buffer().clone(), param: used.param };
            moved.get_or_insert_with(|| launch.clone()).args.set_view(param, numbers, used, view);
        }
        if let Some(moved) = &moved {
            moved.args.check_overlaps(&moved.kernel)?;
        }
        Ok(moved)
    }

    /// The place in the new tensor of one in the old.
    fn place(&self, place: &Place, bytes: usize, writes: bool) -> Result<Option<Place>> {
        let start = place.offset as u64;
        let range = start..start + bytes as u64;
        if !self.touches(&place.buffer, &range) {
            return Ok(None);
        }
        if !(self.has_all(&range) && self.is_whole()) {
            let what = "a copy uses a part of the tensor that is to be replaced, and what is outside of it";
            return Err(self.refused(what));
        }
        if writes && !self.mutable {
            return Err(self.refused("the graph writes the tensor that is to be replaced: use `replace_mut`"));
        }
        if let Some((expected, given)) = self.difference() {
            return Err(self.refused(&format!("the tensor must be {expected}, got {given}")));
        }
        let offset = place.offset - self.old.byte_offset() + self.new.byte_offset();
        Ok(Some(Place { buffer: self.new.buffer().clone(), offset }))
    }

    /// The bytes of the buffer that the old tensor spans.
    fn bytes(&self) -> Range<u64> {
        let start = self.old.byte_offset() as u64;
        start..start + self.old.span_bytes() as u64
    }

    /// Whether a piece of memory is in part the old tensor's.
    fn touches(&self, buffer: &Arc<Buffer>, bytes: &Range<u64>) -> bool {
        let own = self.bytes();
        let shared = own.start.max(bytes.start)..own.end.min(bytes.end);
        Arc::ptr_eq(buffer, self.old.buffer())
            && (!shared.is_empty() || (bytes.is_empty() && self.has_all(bytes)))
    }

    fn has_all(&self, bytes: &Range<u64>) -> bool {
        let own = self.bytes();
        own.start <= bytes.start && bytes.end <= own.end
    }

    /// Whether the old tensor has every byte that it spans, so that all views in them are its.
    fn is_whole(&self) -> bool {
        self.old.layout().span() == self.old.len()
    }

    /// Whether an argument is the old tensor itself.
    fn is_same_view(&self, view: &BufferBinding, numbers: &[u64]) -> bool {
        let axes = self.old.shape().iter().chain(self.old.strides()).map(|&n| n as u64);
        view.byte_offset == self.old.byte_offset() as u64 && axes.eq(numbers.iter().copied())
    }

    /// What the new tensor must be, and what it is.
    fn difference(&self) -> Option<(String, String)> {
        let describe = |tensor: &DynTensor| {
            let (dtype, shape, strides): (Scalar, _, _) = (tensor.dtype(), tensor.shape(), tensor.strides());
            format!("a tensor of {dtype}, shape {shape:?} and strides {strides:?}")
        };
        let (old, new) = (describe(self.old), describe(self.new));
        (old != new).then_some((old, new))
    }

    /// Whether an argument of a launch can be the new tensor.
    fn check(&self, launch: &Launched, param: &ParamInfo) -> Result<()> {
        if let Some((expected, given)) = self.difference() {
            return Err(self.argument(launch, param, format!("{expected}, as the one it replaces"), given));
        }
        if param.given.is_mutable() && !self.mutable {
            let given = "a read-only one: use `replace_mut`".to_owned();
            return Err(self.argument(launch, param, param.given.to_string(), given));
        }
        Ok(())
    }

    fn argument(&self, launch: &Launched, param: &ParamInfo, expected: String, given: String) -> Error {
        let (kernel, argument) = (launch.kernel.name.to_string(), param.name.clone());
        Error::Argument { kernel, argument, expected, given, location: self.site }
    }

    fn refused(&self, what: &str) -> Error {
        Error::GraphUpdate { what: what.to_owned(), location: self.site }
    }
}
