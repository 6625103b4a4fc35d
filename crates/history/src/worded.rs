/// Declares an enum of which each value has words of its own, with all of its values as `ALL`.
#[macro_export]
macro_rules! worded {
    (
        $(#[$about:meta])*
        $vis:vis enum $Enum:ident {
            $($(#[$each:meta])* $Variant:ident = $words:literal,)*
        }
        $(#[$says:meta])*
        $says_vis:vis fn $name:ident;
    ) => {
        $(#[$about])*
        $vis enum $Enum {
            $($(#[$each])* $Variant,)*
        }

        impl $Enum {
            $vis const ALL: [$Enum; [$($words),*].len()] = [$($Enum::$Variant),*];

            $(#[$says])*
            $says_vis fn $name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $words,)*
                }
            }
        }
    };
}
