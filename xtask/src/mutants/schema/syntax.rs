//! The places of a source file where code can be selected at run time.

mod deferred;

use deferred::Deferred;
use std::ops::Range;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Expr, Pat};

/// An expression that is evaluated at run time.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

/// What matters of an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operator and its operands.
    Binary {
        left: Range<usize>,
        right: Range<usize>,
    },
    /// `S { a: 1, ..s }`
    Struct,
    /// A condition with `let`, which cannot stand in parentheses.
    Let,
    Other,
}

/// An arm of a `match` that is evaluated at run time.
#[derive(Debug)]
pub(super) struct ArmPlace {
    range: Range<usize>,
    pub(super) pattern_end: usize,
    pub(super) guard: Option<Range<usize>>,
}

/// The places of a file, without those in constants, constant functions and patterns.
#[derive(Debug, Default)]
pub(super) struct Syntax {
    expressions: Vec<Node>,
    arms: Vec<ArmPlace>,
    /// The statements of each function.
    pub(super) bodies: Vec<Range<usize>>,
    /// Edits that move constant functions to run time.
    pub(super) deferred: Vec<(Range<usize>, String)>,
    deferrable: Deferred,
    /// How many constants the visitor is in.
    constants: u32,
}

impl Syntax {
    pub(super) fn parse(source: &str) -> Result<Syntax, syn::Error> {
        let file = syn::parse_file(source)?;
        let mut syntax = Syntax { deferrable: Deferred::of(&file), ..Syntax::default() };
        syntax.visit_file(&file);
        Ok(syntax)
    }

    /// The smallest expression around a range; of those with fields only, if so wanted.
    pub(super) fn expression(&self, range: &Range<usize>, wants_struct: bool) -> Option<&Node> {
        let nodes = self.expressions.iter().filter(|node| {
            contains(&node.range, range) && (!wants_struct || node.kind == Kind::Struct)
        });
        nodes.min_by_key(|node| node.range.len())
    }

    /// The smallest arm around a range.
    pub(super) fn arm(&self, range: &Range<usize>) -> Option<&ArmPlace> {
        let arms = self.arms.iter().filter(|arm| contains(&arm.range, range));
        arms.min_by_key(|arm| arm.range.len())
    }

    fn in_constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constants += 1;
        visit(self);
        self.constants -= 1;
    }

    fn visit_body(&mut self, sig: &syn::Signature, block: &syn::Block) {
        if sig.constness.is_some() {
            self.in_constant(|this| this.visit_block(block));
            return;
        }
        // A function in a constant runs when it is called, as any other.
        let constants = std::mem::take(&mut self.constants);
        if let [first, .., last] | [first @ last] = block.stmts.as_slice() {
            self.bodies.push(range(first).start..range(last).end);
        }
        self.visit_block(block);
        self.constants = constants;
    }
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn range(node: &impl syn::spanned::Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Syntax {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.constants == 0 {
            let kind = match expr {
                _ if has_let(expr) => Kind::Let,
                Expr::Binary(e) => Kind::Binary { left: range(&e.left), right: range(&e.right) },
                Expr::Struct(_) => Kind::Struct,
                _ => Kind::Other,
            };
            self.expressions.push(Node { range: range(expr), kind });
        }
        visit::visit_expr(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if self.constants == 0 {
            let guard = match &arm.pat {
                Pat::Guard(guarded) => Some(range(&guarded.guard)),
                _ => None,
            };
            let pattern_end = range(&arm.pat).end;
            self.arms.push(ArmPlace { range: range(arm), pattern_end, guard });
        }
        visit::visit_arm(self, arm);
    }

    fn visit_pat(&mut self, pat: &'ast Pat) {
        match pat {
            Pat::Guard(guarded) => {
                self.visit_pat(&guarded.pat);
                self.visit_expr(&guarded.guard);
            }
            _ => self.in_constant(|this| visit::visit_pat(this, pat)),
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        match &item.sig.constness {
            Some(token) if self.deferrable.has_function(&item.sig.ident) => {
                self.deferred.push((range(token), String::new()));
                let sig = syn::Signature { constness: None, ..item.sig.clone() };
                self.visit_body(&sig, &item.block);
            }
            _ => self.visit_body(&item.sig, &item.block),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.visit_body(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.visit_body(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.in_constant(|this| visit::visit_item_const(this, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if self.deferrable.has_static(item) {
            let (ty, expr) = (range(&item.ty), range(&item.expr));
            let mut insert = |at: usize, text: &str| self.deferred.push((at..at, text.into()));
            insert(ty.start, "std::sync::LazyLock<");
            insert(ty.end, ">");
            insert(expr.start, "std::sync::LazyLock::new(|| ");
            insert(expr.end, ")");
            self.visit_expr(&item.expr);
        } else {
            self.in_constant(|this| visit::visit_item_static(this, item));
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.in_constant(|this| visit::visit_impl_item_const(this, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.in_constant(|this| visit::visit_trait_item_const(this, item));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.in_constant(|this| visit::visit_variant(this, variant));
    }

    fn visit_type(&mut self, ty: &'ast syn::Type) {
        self.in_constant(|this| visit::visit_type(this, ty));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.in_constant(|this| visit::visit_generic_argument(this, argument));
    }

    fn visit_expr_const(&mut self, expr: &'ast syn::ExprConst) {
        self.in_constant(|this| visit::visit_expr_const(this, expr));
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
        self.in_constant(|this| this.visit_expr(&expr.len));
    }
}
