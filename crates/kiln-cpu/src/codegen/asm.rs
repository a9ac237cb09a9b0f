//! A thin layer over Cranelift's function builder: what the rest of the code generator says often,
//! said shortly.

use crate::symbol::{Function, Symbol};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, ExtFuncData, GlobalValueData, InstBuilder, MemFlagsData, SigRef, Signature,
    StackSlotData, StackSlotKind, UserExternalName, types,
};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::FunctionBuilder;
use kiln_cpu_primitives::{PrimitiveFn, PrimitiveKey, lookup};
use kiln_ir::Scalar;
use std::collections::HashMap;

/// The Cranelift type that holds a scalar; floats of 8 and 16 bits are held as bits.
pub(super) fn scalar_type(elem: Scalar) -> ir::Type {
    match elem {
        Scalar::Bool | Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 => types::I8,
        Scalar::I32 | Scalar::U32 => types::I32,
        Scalar::I64 | Scalar::U64 => types::I64,
        Scalar::F16 | Scalar::BF16 | Scalar::I16 | Scalar::U16 => types::I16,
        Scalar::F32 => types::F32,
        Scalar::F64 => types::F64,
    }
}

/// The function under construction.
pub(super) struct Asm<'f> {
    pub(super) fb: FunctionBuilder<'f>,
    conv: CallConv,
    signatures: HashMap<(usize, Option<ir::Type>), SigRef>,
    /// What the code refers to. The index is the one of the symbol's name.
    symbols: Vec<Symbol>,
    names: HashMap<Symbol, ir::UserExternalNameRef>,
    functions: HashMap<(Symbol, SigRef), ir::FuncRef>,
}

impl<'f> Asm<'f> {
    pub(super) fn new(fb: FunctionBuilder<'f>, conv: CallConv) -> Asm<'f> {
        let (signatures, names, functions) = (HashMap::new(), HashMap::new(), HashMap::new());
        Asm { fb, conv, signatures, symbols: Vec::new(), names, functions }
    }

    /// A 64-bit constant.
    pub(super) fn int(&mut self, value: i64) -> ir::Value {
        self.fb.ins().iconst(types::I64, value)
    }

    /// The name of a symbol in this function.
    fn name(&mut self, symbol: Symbol) -> ir::ExternalName {
        let (symbols, func) = (&mut self.symbols, &mut self.fb.func);
        let name = *self.names.entry(symbol).or_insert_with(|| {
            symbols.push(symbol);
            let index = symbols.len() as u32 - 1;
            func.declare_imported_user_function(UserExternalName { namespace: 0, index })
        });
        ir::ExternalName::user(name)
    }

    /// The address of data outside of the code, which is found when that is linked.
    pub(super) fn address(&mut self, symbol: Symbol) -> ir::Value {
        let name = self.name(symbol);
        let data = GlobalValueData::Symbol { name, offset: 0.into(), colocated: false, tls: false };
        let at = self.fb.create_global_value(data);
        self.fb.ins().symbol_value(types::I64, at)
    }

    fn function(&mut self, symbol: Symbol, signature: SigRef) -> ir::FuncRef {
        if let Some(&known) = self.functions.get(&(symbol, signature)) {
            return known;
        }
        let name = self.name(symbol);
        let data = ExtFuncData { name, signature, colocated: false, patchable: false };
        let function = self.fb.import_function(data);
        self.functions.insert((symbol, signature), function);
        function
    }

    pub(super) fn add(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.fb.ins().iadd(a, b)
    }

    pub(super) fn mul(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.fb.ins().imul(a, b)
    }

    pub(super) fn add_const(&mut self, a: ir::Value, b: i64) -> ir::Value {
        if b == 0 {
            return a;
        }
        self.fb.ins().iadd_imm_s(a, b)
    }

    pub(super) fn mul_const(&mut self, a: ir::Value, b: i64) -> ir::Value {
        if b == 1 {
            return a;
        }
        self.fb.ins().imul_imm_s(a, b)
    }

    pub(super) fn and(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.fb.ins().band(a, b)
    }

    pub(super) fn compare(&mut self, cc: IntCC, a: ir::Value, b: ir::Value) -> ir::Value {
        self.fb.ins().icmp(cc, a, b)
    }

    /// Loads a scalar.
    pub(super) fn load(&mut self, ty: ir::Type, at: ir::Value, offset: i32) -> ir::Value {
        self.fb.ins().load(ty, MemFlagsData::trusted(), at, offset)
    }

    /// Stores a scalar.
    pub(super) fn store(&mut self, value: ir::Value, at: ir::Value, offset: i32) {
        self.fb.ins().store(MemFlagsData::trusted(), value, at, offset);
    }

    /// The address of a new piece of the stack.
    pub(super) fn stack(&mut self, bytes: usize) -> ir::Value {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 4);
        let slot = self.fb.create_sized_stack_slot(data);
        self.fb.ins().stack_addr(types::I64, slot, 0)
    }

    /// The bits of a scalar, zero-extended to 64.
    pub(super) fn bits(&mut self, value: ir::Value) -> ir::Value {
        let value = match self.fb.func.dfg.value_type(value) {
            types::F32 => self.fb.ins().bitcast(types::I32, MemFlagsData::new(), value),
            types::F64 => self.fb.ins().bitcast(types::I64, MemFlagsData::new(), value),
            _ => value,
        };
        match self.fb.func.dfg.value_type(value) {
            types::I64 => value,
            _ => self.fb.ins().uextend(types::I64, value),
        }
    }

    /// The scalar with the lowest of 64 bits.
    pub(super) fn of_bits(&mut self, bits: ir::Value, elem: Scalar) -> ir::Value {
        match scalar_type(elem) {
            types::I64 => bits,
            types::F64 => self.fb.ins().bitcast(types::F64, MemFlagsData::new(), bits),
            types::F32 => {
                let low = self.fb.ins().ireduce(types::I32, bits);
                self.fb.ins().bitcast(types::F32, MemFlagsData::new(), low)
            }
            narrow => self.fb.ins().ireduce(narrow, bits),
        }
    }

    /// The signature of a function of arguments of 64 bits.
    fn signature(&mut self, args: usize, result: Option<ir::Type>) -> SigRef {
        let (conv, fb) = (self.conv, &mut self.fb);
        *self.signatures.entry((args, result)).or_insert_with(|| {
            let mut signature = Signature::new(conv);
            signature.params.extend((0..args).map(|_| AbiParam::new(types::I64)));
            signature.returns.extend(result.map(AbiParam::new));
            fb.import_signature(signature)
        })
    }

    /// Calls a function with arguments of 64 bits.
    pub(super) fn call(
        &mut self,
        symbol: Symbol,
        args: &[ir::Value],
        result: Option<ir::Type>,
    ) -> Option<ir::Value> {
        let signature = self.signature(args.len(), result);
        let callee = self.function(symbol, signature);
        let call = self.fb.ins().call(callee, args);
        result.map(|_| self.fb.inst_results(call)[0])
    }

    /// As [`call`](Self::call), of a function of this crate.
    pub(super) fn call_own(
        &mut self,
        function: Function,
        args: &[ir::Value],
        result: Option<ir::Type>,
    ) -> Option<ir::Value> {
        self.call(Symbol::Function(function), args, result)
    }

    /// Calls a primitive; gives its flag if it returns one, and nothing if there is no such
    /// primitive.
    pub(super) fn primitive(&mut self, key: PrimitiveKey, args: &[ir::Value]) -> Option<Option<ir::Value>> {
        let function: PrimitiveFn = lookup(key)?;
        debug_assert_eq!(function.arity(), args.len(), "{key:?}");
        Some(self.call(Symbol::Primitive(key), args, function.returns_flag().then_some(types::I32)))
    }

    /// Calls one of two primitives of one type without a result: the first if the condition is
    /// not 0. Gives whether both exist.
    pub(super) fn either_primitive(
        &mut self,
        condition: ir::Value,
        keys: [PrimitiveKey; 2],
        args: &[ir::Value],
    ) -> bool {
        let [Some(first), Some(second)] = keys.map(lookup) else { return false };
        debug_assert!(
            [first, second].iter().all(|f| f.arity() == args.len() && !f.returns_flag()),
            "{keys:?}"
        );
        let signature = self.signature(args.len(), None);
        let [first, second] = keys.map(|key| {
            let function = self.function(Symbol::Primitive(key), signature);
            self.fb.ins().func_addr(types::I64, function)
        });
        let callee = self.fb.ins().select(condition, first, second);
        self.fb.ins().call_indirect(signature, callee, args);
        true
    }

    /// A new block with a parameter of each type.
    pub(super) fn block(&mut self, params: &[ir::Type]) -> (ir::Block, Vec<ir::Value>) {
        let block = self.fb.create_block();
        let values = params.iter().map(|&ty| self.fb.append_block_param(block, ty)).collect();
        (block, values)
    }

    pub(super) fn jump(&mut self, block: ir::Block, args: &[ir::Value]) {
        let args: Vec<ir::BlockArg> = args.iter().map(|&v| v.into()).collect();
        self.fb.ins().jump(block, &args);
    }

    /// Goes to `yes` if the condition is not 0, else to `no`. Neither takes arguments.
    pub(super) fn branch(&mut self, condition: ir::Value, yes: ir::Block, no: ir::Block) {
        self.fb.ins().brif(condition, yes, &[], no, &[]);
    }

    /// Continues in a block, which has been made before.
    pub(super) fn enter(&mut self, block: ir::Block) {
        self.fb.switch_to_block(block);
    }

    /// Ends the function with a status.
    pub(super) fn return_status(&mut self, status: i64) {
        let status = self.fb.ins().iconst(types::I32, status);
        self.fb.ins().return_(&[status]);
    }

    /// Completes the function. Gives what it refers to, in the order of the names' indices.
    pub(super) fn finish(mut self, config: TargetFrontendConfig) -> Vec<Symbol> {
        self.fb.seal_all_blocks();
        self.fb.finalize(config);
        self.symbols
    }
}
