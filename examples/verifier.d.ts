export type Claims = {
    iss: string;
    aud: string;
    sub: string;
    iat: number;
    exp: number;
    jti: string;
    sid: string;
    email: string;
    name: string;
    role: string;
    amr: string[];
};
/**
 * While the feed does not answer, tokens are accepted by what it said last, for `maxSilenceMs`; after that, and if it
 * has never answered, no token is. `Infinity` accepts them however long it is silent, as without a feed.
 * `address` is where the service is reached, if that is not the issuer.
 * `onRefused` is told why a token is refused, for the log.
 * @param {string} issuer
 * @param {{ audience?: string, address?: string, maxSilenceMs?: number, onRefused?: (error: Error) => void }} [options]
 */
export declare function createVerifier(issuer: string, options?: {
    audience?: string;
    address?: string;
    maxSilenceMs?: number;
    onRefused?: (error: Error) => void;
}): {
    verify: (token: string) => Promise<Claims | null>;
    isEnded: (sid: unknown) => boolean;
};
