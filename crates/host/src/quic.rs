//! QUIC through quinn, for measurements beside NDP.

use crate::perf::Latencies;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use quinn::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use quinn::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme, version,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The name in the certificate of the server.
const NAME: &str = "punctual";
/// The longest request.
const REQUEST_MAX: usize = 1 << 20;

fn other(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Echoes each stream of each connection until `stop` becomes true.
pub(crate) fn serve(address: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.into()]).map_err(other)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let config = quinn::ServerConfig::with_single_cert(vec![certificate], key.into());
    let config = config.map_err(other)?;
    runtime()?.block_on(async {
        let endpoint = quinn::Endpoint::server(config, address)?;
        while !stop.load(Ordering::Relaxed) {
            let accepted =
                tokio::time::timeout(Duration::from_millis(100), endpoint.accept()).await;
            let Ok(incoming) = accepted else { continue };
            let Some(incoming) = incoming else { break };
            tokio::spawn(async move {
                let Ok(connection) = incoming.await else { return };
                while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                    tokio::spawn(async move {
                        if let Ok(bytes) = receive.read_to_end(REQUEST_MAX).await
                            && send.write_all(&bytes).await.is_ok()
                        {
                            let _ = send.finish();
                        }
                    });
                }
            });
        }
        Ok(())
    })
}

/// Accepts the server's certificate, which it made itself: this measures, and protects nothing.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn client_config() -> io::Result<quinn::ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let config = QuicClientConfig::try_from(tls).map_err(other)?;
    Ok(quinn::ClientConfig::new(Arc::new(config)))
}

/// Requests over QUIC, each echoed: on streams of one connection, or each on a new connection.
pub(crate) fn latency(
    server: SocketAddr,
    bytes: usize,
    count: usize,
    is_new_each: bool,
) -> io::Result<Latencies> {
    let any = if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let any: SocketAddr = any.parse().map_err(other)?;
    runtime()?.block_on(async {
        let mut endpoint = quinn::Endpoint::client(any)?;
        endpoint.set_default_client_config(client_config()?);
        let data = vec![7; bytes];
        let warm_up = count / 10;
        let mut times = Vec::with_capacity(count);
        let mut kept = None;
        for round in 0..count + warm_up {
            let start = Instant::now();
            let connection = match kept.take() {
                Some(connection) => connection,
                None => endpoint.connect(server, NAME).map_err(other)?.await.map_err(other)?,
            };
            let (mut send, mut receive) = connection.open_bi().await.map_err(other)?;
            send.write_all(&data).await.map_err(other)?;
            send.finish().map_err(other)?;
            let answer = receive.read_to_end(REQUEST_MAX).await.map_err(other)?;
            if answer != data {
                return Err(io::Error::other("the answer differs from the request"));
            }
            if round >= warm_up {
                times.push(start.elapsed());
            }
            kept = (!is_new_each).then_some(connection);
        }
        Ok(Latencies::of(times))
    })
}
