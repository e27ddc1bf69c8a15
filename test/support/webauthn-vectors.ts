// The test vectors of the W3C: Web Authentication Level 3, section "Test Vectors". Their domain is example.org. Of the
// attestation objects, this is the authenticator data; bytes are in hex.

/** Two Mersenne primes make a modulus that is easy to write down. */
const MODULUS = ((2n ** 1279n - 1n) * (2n ** 2203n - 1n)).toString(16).padStart(872, '0')

export const VECTORS = {
  ES256: {
    created: {
      clientDataJSON:
        '{"type":"webauthn.create","challenge":"AMMPt4UxxGTStncdq417YDwBFi8vpIa-pw8oOuVW4TA","origin":"https://example.org","crossOrigin":false,"extraData":"clientDataJSON may be extended with additional fields in the future, such as this: BkQeDjdcTBrXBiAwJTLE5Q"}',
      authenticatorData: [
        'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b559000000008446ccb9ab1db3',
        '74750b2367ff6f3a1f0020f91f391db4c9b2fde0ea70189cba3fb63f579ba6122b33ad94ff3ec330084be4a5',
        '010203262001215820afefa16f97ca9b2d23eb86ccb64098d20db90856062eb249c33a9b672f26df61225820',
        '930a56b87a2fca66334b03458abf879717c12cc68ed73290af2e2664796b9220',
      ].join(''),
    },
    used: {
      clientDataJSON:
        '{"type":"webauthn.get","challenge":"OcDnUhQXulTUPo3JUXT0I97pvzzYBP9tZchXyav01Ag","origin":"https://example.org","crossOrigin":false}',
      authenticatorData:
        'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b51900000000',
      signature: [
        '3046022100f50a4e2e4409249c4a853ba361282f09841df4dd4547a13a87780218deffcd380221008480ac0f',
        '0b93538174f575bf11a1dd5d78c6e486013f937295ea13653e331e87',
      ].join(''),
    },
  },
  EdDSA: {
    created: {
      clientDataJSON:
        '{"type":"webauthn.create","challenge":"qKv52r3GsN9jRms5vanoo0o04YUzelnxxXmZBnbTs70","origin":"https://example.org","crossOrigin":false,"extraData":"clientDataJSON may be extended with additional fields in the future, such as this: B_DT5g7ZD_-9OTLYX5IvEQ"}',
      authenticatorData: [
        'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b54100000000d5aa33581e8ca4',
        '78e20fe713f5d32ff20020ce9f840ed96599580cd140fbc7bb3230633f50f61041aff73308ae71caa8a2bda4',
        '01010327200621582044e06ddd331c36a8dc667bab52bcae63486c916aa5e339e6acebaa84934bf832',
      ].join(''),
    },
    used: {
      clientDataJSON:
        '{"type":"webauthn.get","challenge":"iVlX4BxjOmmDSKLYoxpUt9sn6MHEOyCA15riGQJnv9I","origin":"https://example.org","crossOrigin":false}',
      authenticatorData:
        'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b50100000000',
      signature: [
        'f5c59c7e46c34f6f8cc197101ddf9934fa2595f68eb1913a637e8419eb9ba4cfdfc48f85393bc0d40b011f0d',
        '6fecb097d6607525713223a0dc0d453993dae00b',
      ].join(''),
    },
  },
  RS256: {
    created: {
      clientDataJSON:
        '{"type":"webauthn.create","challenge":"vqjwdwAJvVfywN9v6p90Oifkthu-kjyGLHqtep_I5KY","origin":"https://example.org","crossOrigin":false}',
      authenticatorData: [
        'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b55d00000000428f8878298b98',
        '62a36ad8c7527bfef20020992a18acc83f67533600c1138a4b4c4bd236de13629cf025ed17cb00b00b74dfa4',
        '010303390100205901b4',
        MODULUS,
        '2143010001',
      ].join(''),
    },
    used: {
      clientDataJSON:
        '{"type":"webauthn.get","challenge":"KV9Z9fqP5ixayp4nYmx4yNo3aubYzS3SmuutYB4bxMU","origin":"https://example.org","crossOrigin":false}',
      authenticatorData:
        'bfabc37432958b063360d3ad6461c9c4735ae7f8edd46592a5e0f01452b2e4b51900000000',
      signature: [
        '01063d52d7c39b4d432fc7063c5d93e582bdcb16889cd71f888d67d880ea730a428498d3bc8e1ee11f2b1ecb',
        'e6c292b118c55ffaaddefa8cad0a54dd137c51f1eec673f1bb6c4d1789d6826a222b22d0f585fc901fdc9332',
        '12e579d199b89d672aa44891333e6a1355536025e82b25590256c3538229b55737083b2f6b9377e49e2472f1',
        '1952f79fdd0da180b5ffd901b4049a8f081bb40711bef76c62aed943571f2d0575304cb549d68d8892f95086',
        'a30f93716aee818f8dc06e96c0d5e0ed4cfa9fd8773d90464b68cf140f7986666ff9c9e3302acd0535d60d76',
        '9f465e2ab57ef8aabc89fccfef7ba32a64154a8b3d26be2298f470b8cc5377dbe3dfd4b0b45f8f01e63bde6c',
        'fc76b62771f9b70aa27cf40152cad93aa5acd784fd4b90f676e2ea828d0bf2400aebbaae4153e5838f537f88',
        'b6228346782a93a899be66ec77de45b3efcf311da6321c92e6b0cd11bfe653bf3e98cee8e341f02d67dbb6f9',
        'c98d9e8178090cfb5b70fbc6d541599ac794ae2f1d4de1286ec8de8c2daf7b1d15c8438e90d924df5c190452',
        '20a4c8438c1b979bbe016cf3d0eeec23c3999d4882cc645b776de930756612cdc6dd398160ff02a6',
      ].join(''),
    },
  },
}
