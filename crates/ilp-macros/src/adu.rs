//! `#[derive(Adu)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, Ident, Member, Result};

/// The bound of a field, if it has one.
fn bound(field: &Field) -> Result<Option<Expr>> {
    let mut max = None;
    for attribute in field.attrs.iter().filter(|it| it.path().is_ident("xdr")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("max") {
            true => {
                max = Some(meta.value()?.parse()?);
                Ok(())
            }
            false => Err(meta.error("wanted is max = N")),
        })?;
    }
    Ok(max)
}

/// How the fields of a structure or a variant are marshalled.
struct Form {
    names: Vec<Member>,
    locals: Vec<Ident>,
    encode: Vec<TokenStream>,
    decode: Vec<TokenStream>,
    min: TokenStream,
}

fn form(fields: &Fields) -> Result<Form> {
    let mut form = Form {
        names: fields.members().collect(),
        locals: Vec::new(),
        encode: Vec::new(),
        decode: Vec::new(),
        min: quote!(0),
    };
    for (at, field) in fields.iter().enumerate() {
        let (local, kind) = (format_ident!("field_{at}"), &field.ty);
        let min = &form.min;
        match bound(field)? {
            Some(max) => {
                form.encode
                    .push(quote!(::layercast_ilp::Bounded::encode_within(#local, #max, to)?;));
                form.decode
                    .push(quote!(<#kind as ::layercast_ilp::Bounded>::decode_within(#max, from)?));
                form.min = quote!(#min + 4);
            }
            None => {
                form.encode
                    .push(quote!(::layercast_ilp::Adu::encode(#local, to)?;));
                form.decode
                    .push(quote!(<#kind as ::layercast_ilp::Adu>::decode(from)?));
                form.min = quote!(#min + <#kind as ::layercast_ilp::Adu>::MIN);
            }
        }
        form.locals.push(local);
    }
    Ok(form)
}

/// The implementation for a type.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let (min, encode, decode) = match &input.data {
        Data::Struct(data) => of_struct(&form(&data.fields)?),
        Data::Enum(data) => of_enum(data)?,
        Data::Union(_) => {
            let why = "a union of Rust has no discriminant: use an enumeration";
            return Err(Error::new_spanned(&input.ident, why));
        }
    };
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::layercast_ilp::Adu for #name #arguments #bounds {
            const MIN: usize = #min;

            fn encode<S: ::layercast_ilp::adu::Sink>(&self, to: &mut S)
                -> ::core::result::Result<(), ::layercast_ilp::IlpError>
            {
                #encode
                ::core::result::Result::Ok(())
            }

            fn decode<S: ::layercast_ilp::adu::Source>(from: &mut S)
                -> ::core::result::Result<Self, ::layercast_ilp::IlpError>
            {
                #decode
            }
        }
    })
}

fn of_struct(form: &Form) -> (TokenStream, TokenStream, TokenStream) {
    let Form {
        names,
        locals,
        encode,
        decode,
        min,
    } = form;
    let unpack = quote!(let Self { #(#names: #locals),* } = self;);
    let pack = quote!(::core::result::Result::Ok(Self { #(#names: #decode),* }));
    let silent = quote!(let _ = (&to,););
    let from = quote!(let _ = (&from,););
    (
        min.clone(),
        quote!(#unpack #silent #(#encode)*),
        quote!(#from #pack),
    )
}

fn of_enum(data: &syn::DataEnum) -> Result<(TokenStream, TokenStream, TokenStream)> {
    let (mut arms, mut undo, mut consts) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = quote!(0_i64);
    for (at, variant) in data.variants.iter().enumerate() {
        let (name, tag) = (&variant.ident, format_ident!("TAG_{at}"));
        let number = match &variant.discriminant {
            Some((_, number)) => quote!((#number) as i64),
            None => next,
        };
        consts.push(quote!(const #tag: u32 = (#number) as u32;));
        next = quote!((#number) + 1);
        let Form {
            names,
            locals,
            encode,
            decode,
            ..
        } = form(&variant.fields)?;
        arms.push(quote!(Self::#name { #(#names: #locals),* } => { to.word(#tag)?; #(#encode)* }));
        undo.push(quote!(#tag => ::core::result::Result::Ok(Self::#name { #(#names: #decode),* })));
    }
    let consts = quote!(#(#consts)*);
    let encode = quote!(#consts match self { #(#arms)* });
    let decode = quote! {
        #consts
        match from.word()? {
            #(#undo,)*
            other => ::core::result::Result::Err(::layercast_ilp::IlpError::UnknownAdu(other)),
        }
    };
    Ok((quote!(4), encode, decode))
}
