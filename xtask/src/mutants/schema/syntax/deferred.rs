//! Constant functions that can run when the program does instead: private ones, called by statics
//! (which become lazy) and by functions, but not by constants.

use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// The names of such functions.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    functions: BTreeSet<String>,
}

impl Deferred {
    pub(super) fn of(file: &syn::File) -> Deferred {
        let items = file.items.iter();
        let functions: BTreeSet<String> = items
            .filter_map(|item| match item {
                syn::Item::Fn(item) => Some(item),
                _ => None,
            })
            .filter(|item| item.sig.constness.is_some())
            .filter(|item| matches!(item.vis, syn::Visibility::Inherited))
            .map(|item| item.sig.ident.to_string())
            .collect();
        let mut deferred = Deferred { functions };
        loop {
            // A function that stays constant may call only functions that do.
            let mut names =
                Names { deferred: &deferred, in_constant: false, found: BTreeSet::new() };
            names.visit_file(file);
            let found = names.found;
            if found.is_disjoint(&deferred.functions) {
                return deferred;
            }
            deferred.functions.retain(|name| !found.contains(name));
        }
    }

    pub(super) fn has_function(&self, name: &syn::Ident) -> bool {
        self.functions.contains(&name.to_string())
    }

    /// Whether a static calls such a function.
    pub(super) fn has_static(&self, item: &syn::ItemStatic) -> bool {
        let nothing = Deferred::default();
        let mut names = Names { deferred: &nothing, in_constant: true, found: BTreeSet::new() };
        names.visit_expr(&item.expr);
        !names.found.is_disjoint(&self.functions)
    }
}

/// Collects the names that constants mention.
struct Names<'a> {
    deferred: &'a Deferred,
    in_constant: bool,
    found: BTreeSet<String>,
}

impl Names<'_> {
    fn visit_as(&mut self, in_constant: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.in_constant, in_constant);
        visit(self);
        self.in_constant = before;
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if self.in_constant
            && let Some(last) = path.segments.last()
        {
            self.found.insert(last.ident.to_string());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let stays = item.sig.constness.is_some() && !self.deferred.has_function(&item.sig.ident);
        self.visit_as(stays, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let stays = item.sig.constness.is_some();
        self.visit_as(stays, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.visit_type(&item.ty);
        self.visit_as(false, |this| this.visit_expr(&item.expr));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.visit_as(true, |this| visit::visit_item_const(this, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.visit_as(true, |this| visit::visit_impl_item_const(this, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.visit_as(true, |this| visit::visit_trait_item_const(this, item));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.visit_as(true, |this| visit::visit_variant(this, variant));
    }

    fn visit_type(&mut self, ty: &'ast syn::Type) {
        self.visit_as(true, |this| visit::visit_type(this, ty));
    }

    fn visit_expr_const(&mut self, expr: &'ast syn::ExprConst) {
        self.visit_as(true, |this| visit::visit_expr_const(this, expr));
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
        self.visit_as(true, |this| this.visit_expr(&expr.len));
    }
}
