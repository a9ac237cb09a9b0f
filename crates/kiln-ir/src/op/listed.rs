//! Enums of operations that list their variants.

/// Declares an enum with `ALL`, the list of its values: each variant, or each value of the listed
/// enum that a variant holds, in the order of the declaration. The first variant holds nothing.
macro_rules! listed {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(#[$first_doc:meta])* $first:ident,
            $($(#[$doc:meta])* $variant:ident $(($inner:ident))?,)*
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $(#[$first_doc])* $first,
            $($(#[$doc])* $variant $(($inner))?,)*
        }

        impl $name {
            /// Every one, in the order of the declaration.
            pub const ALL: &[$name] = &{
                let mut all = [$name::$first; 1 $(+ listed!(@count $($inner)?))*];
                let mut at = 1;
                $(listed!(@push all at $name $variant $($inner)?);)*
                assert!(at == all.len());
                all
            };
        }
    };
    (@count) => { 1 };
    (@count $inner:ident) => { $inner::ALL.len() };
    (@push $all:ident $at:ident $name:ident $variant:ident) => {
        $all[$at] = $name::$variant;
        $at += 1;
    };
    (@push $all:ident $at:ident $name:ident $variant:ident $inner:ident) => {
        let mut i = 0;
        while i < $inner::ALL.len() {
            $all[$at] = $name::$variant($inner::ALL[i]);
            $at += 1;
            i += 1;
        }
    };
}

pub(super) use listed;
