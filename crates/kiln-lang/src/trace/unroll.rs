//! Loops that are unrolled by a factor: one loop whose body has several rounds of the user's, and
//! one for the rounds that are left.
//!
//! The first goes on while all rounds of its body are below the upper bound, and carries where the
//! second begins. Neither bound may wrap, so the bounds of both are computed to stay in their type.

use super::item::UnrolledBody;
use super::promote::Promoter;
use super::site::Site;
use kiln_ir::{BinaryOp, Block, Literal, OpKind, Scalar, Type, Value};

impl Promoter<'_> {
    /// Writes the loop, unrolled, if its step is a positive number of the host's and no step of the
    /// unrolled one leaves the type; whether it did.
    pub(super) fn unrolled(&mut self, [lo, hi]: [Value; 2], body: &UnrolledBody<'_>, block: Block) -> bool {
        let elem = self.kernel.ty(lo).elem();
        let number = |value: i128| Literal::from_i128(elem, value);
        let wide = body.step.checked_mul(body.rounds.into());
        let (Some(wide), true) = (wide.and_then(number), body.step > 0) else { return false };
        let known = |value| self.kernel.as_const(value).map(Literal::as_i128);
        if let (Some(first), Some(end)) = (known(lo), known(hi)) {
            let rounds = (end - first + body.step - 1).div_euclid(body.step).max(0);
            return self.counted(([lo, hi], wide), (first, rounds), body, block);
        }
        let (least, most) = limits(elem);
        let reach = wide.as_i128() - body.step;
        // Below the least number the first loop has no rounds.
        let bounds = [number(least + reach), number(reach), number(most - wide.as_i128())];
        let [Some(low), Some(reach), Some(top)] = bounds else { return false };
        let [low, reach] = [low, reach].map(|bound| self.number(bound, body.site, block));
        let end = self.binary(BinaryOp::Max, hi, low, body.site, block);
        let end = self.binary(BinaryOp::Sub, end, reach, body.site, block);
        let step = self.number(wide, body.site, block);
        let next = self.rounds([lo, end, step], body, (body.rounds, Some(top)), block);
        // What analyses do not see: that it is not before the first, and in step with it.
        let mut next = self.binary(BinaryOp::Max, next.unwrap_or(lo), lo, body.site, block);
        if let Some(first) = self.kernel.as_const(lo) {
            let power = 1i128 << (first.as_i128() | wide.as_i128()).trailing_zeros();
            let mask = self.number(Literal::wrapping(elem, -power), body.site, block);
            next = self.binary(BinaryOp::And, next, mask, body.site, block);
        }
        let step = self.number(Literal::wrapping(elem, body.step), body.site, block);
        self.rounds([next, hi, step], body, (1, None), block);
        true
    }

    /// A loop of so many rounds from a number on.
    fn counted(
        &mut self,
        ([lo, hi], wide): ([Value; 2], Literal),
        (first, rounds): (i128, i128),
        body: &UnrolledBody<'_>,
        block: Block,
    ) -> bool {
        let left = rounds % i128::from(body.rounds);
        if rounds <= body.rounds.into() {
            self.copies(lo, rounds as u32, body, block);
            return true;
        }
        let step = self.number(wide, body.site, block);
        if left == 0 {
            self.rounds([lo, hi, step], body, (body.rounds, None), block);
            return true;
        }
        let middle = Literal::wrapping(wide.elem(), first + (rounds - left) * body.step);
        let middle = self.number(middle, body.site, block);
        self.rounds([lo, middle, step], body, (body.rounds, None), block);
        let step = self.number(Literal::wrapping(wide.elem(), body.step), body.site, block);
        self.rounds([middle, hi, step], body, (1, None), block);
        true
    }

    /// A loop whose body has so many rounds. With `top`, the largest number to which a step can be
    /// added, it carries the number after its last round, or the largest there is, and gives it.
    fn rounds(
        &mut self,
        bounds: [Value; 3],
        body: &UnrolledBody<'_>,
        (count, top): (u32, Option<Literal>),
        block: Block,
    ) -> Option<Value> {
        let UnrolledBody { live, site, .. } = *body;
        let mut operands = bounds.to_vec();
        operands.extend(top.map(|_| bounds[0]));
        operands.extend(live.iter().map(|var| self.held(*var, block)));
        let elem = self.kernel.ty(bounds[0]).elem();
        let mut types: Vec<Type> = top.map(|_| Type::scalar(elem)).into_iter().collect();
        let first = types.len();
        types.extend(self.types(live));
        let mark = self.held.mark();
        let inner = self.kernel.add_block();
        let at = self.kernel.add_arg(inner, Type::scalar(elem));
        let args: Vec<Value> = types.iter().map(|ty| self.kernel.add_arg(inner, ty.clone())).collect();
        live.iter().zip(&args[first..]).for_each(|(var, arg)| self.hold(*var, *arg, inner));
        self.copies(at, count, body, inner);
        let next = top.map(|top| {
            let [top, step] = [top, Literal::wrapping(elem, body.step * i128::from(count))]
                .map(|number| self.number(number, site, inner));
            let at = self.binary(BinaryOp::Min, at, top, site, inner);
            self.binary(BinaryOp::Add, at, step, site, inner)
        });
        self.terminate(inner, OpKind::Yield, next.as_slice(), live, site);
        self.held.back_to(mark);
        let loc = self.loc(site);
        let op = self.kernel.append(block, OpKind::For, &operands, &types, &[inner], loc);
        self.hand_on(op, first, live, block);
        top.map(|_| self.kernel.op(op).results[0])
    }

    /// Rounds one after the other in a block, of which the first is of the index `at`.
    fn copies(&mut self, at: Value, count: u32, body: &UnrolledBody<'_>, block: Block) {
        let elem = self.kernel.ty(at).elem();
        for round in 0..count {
            let mut here = at;
            if round > 0 {
                let distance = Literal::wrapping(elem, body.step * i128::from(round));
                let distance = self.number(distance, body.site, block);
                here = self.binary(BinaryOp::Add, at, distance, body.site, block);
            }
            self.bind(body.index, here);
            let mark = self.held.mark();
            self.region(body.region, block);
            // A round begins with no more than what loops carry.
            let now: Vec<Value> = body.live.iter().map(|var| self.held(*var, block)).collect();
            self.held.back_to(mark);
            body.live.iter().zip(now).for_each(|(var, value)| self.hold(*var, value, block));
        }
    }

    fn number(&mut self, number: Literal, site: Site, block: Block) -> Value {
        let loc = self.loc(site);
        let ty = Type::scalar(number.elem());
        let op = self.kernel.append(block, OpKind::Const(number), &[], &[ty], &[], loc);
        self.kernel.result(op)
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value, site: Site, block: Block) -> Value {
        let (loc, ty) = (self.loc(site), self.kernel.ty(a).clone());
        let op = self.kernel.append(block, OpKind::Binary(op), &[a, b], &[ty], &[], loc);
        self.kernel.result(op)
    }
}

/// The least and the greatest number of an integer type.
fn limits(elem: Scalar) -> (i128, i128) {
    let bits = 8 * elem.bytes();
    match Literal::wrapping(elem, -1).as_i128() < 0 {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}
