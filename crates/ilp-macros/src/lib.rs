//! What `layercast-ilp` needs from the compiler (specs/ilp-code-generation.md 2.11): [`ilp_pipeline!`] makes one loop of stages,
//! [`include_cfg!`] does so from a configuration file, and [`macro@Adu`] gives a type its XDR form.

mod adu;

use std::path::Path;

use layercast_ilp::config::{emit_rust, parse, pipeline};
use proc_macro::TokenStream;
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{DeriveInput, Ident, LitStr, Token, Type, Visibility, parse_macro_input};

/// `pub Name = top: Type -> Type = bottom`.
struct Pipeline {
    visibility: Visibility,
    name: Ident,
    types: Vec<String>,
}

impl Parse for Pipeline {
    fn parse(input: ParseStream<'_>) -> syn::Result<Pipeline> {
        let visibility = input.parse()?;
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let mut types = Vec::new();
        loop {
            let one: Type = input.parse()?;
            types.push(one.to_token_stream().to_string());
            if input.is_empty() {
                break;
            }
            input.parse::<Token![->]>()?;
        }
        Ok(Pipeline {
            visibility,
            name,
            types,
        })
    }
}

/// A pipeline of stages, from the top to the bottom: `ilp_pipeline!(pub Secure = ChaCha20 -> Crc32c)`.
///
/// It defines a structure with `new`, which takes the stages in this order, and implements `Pipeline` for it. The length
/// of a unit is known to the compiler, so that all stages of a unit run in registers.
#[proc_macro]
pub fn ilp_pipeline(input: TokenStream) -> TokenStream {
    let Pipeline {
        visibility,
        name,
        types,
    } = parse_macro_input!(input as Pipeline);
    let visibility = visibility.to_token_stream().to_string();
    parsed(&pipeline(&visibility, &name.to_string(), &types))
}

/// A pipeline from a configuration file: `include_cfg!("if_ilp.cfg")` defines `IfIlp`, with `IfIlp::keyed(&keys)`.
///
/// The path is relative to the folder of `Cargo.toml`.
#[proc_macro]
pub fn include_cfg(input: TokenStream) -> TokenStream {
    let path = parse_macro_input!(input as LitStr);
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let file = Path::new(&folder).join(path.value());
    let refuse =
        |why: String| TokenStream::from(syn::Error::new(path.span(), why).into_compile_error());
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return refuse(format!("{}: {error}", file.display())),
    };
    let config = match parse(&text) {
        Ok(config) => config,
        Err(faults) => {
            let told = faults.iter().map(|it| format!("{}: {it}", file.display()));
            return refuse(told.collect::<Vec<_>>().join("\n"));
        }
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    // The compiler looks at the file again when it changes.
    let watched = format!(
        "const _: &[u8] = include_bytes!({:?});",
        file.display().to_string()
    );
    parsed(&(emit_rust(&config, &stem).text + &watched))
}

fn parsed(source: &str) -> TokenStream {
    source.parse().expect("the back end emits Rust")
}

/// The XDR form of a structure or of an enumeration, which is a union with a discriminant.
///
/// A field of variable length needs `#[xdr(max = N)]`. A variant has its place as its number, from 0 on, or that of its
/// discriminant.
#[proc_macro_derive(Adu, attributes(xdr))]
pub fn derive_adu(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let derived = adu::derive(&input);
    derived
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
