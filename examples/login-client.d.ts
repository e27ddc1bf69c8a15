export type User = {
    id: string;
    email: string;
    name: string;
    role: string;
    createdAt: string;
};
export type Session = {
    id: string;
    createdAt: string;
    lastUsedAt: string;
    expiresAt: string;
    userAgent: string;
    ip: string;
    amr: string[];
    current: boolean;
};
export type LastLogin = {
    at: string;
    ip: string;
    userAgent: string;
    failuresSince: number;
    guessesSince: number;
};
export type CurrentSession = Session & {
    lastLogin: LastLogin | null;
};
export type TokenStorage = {
    read: () => Promise<string | null>;
    write: (refreshToken: string | null) => Promise<void>;
};
export type ServiceCode = 'VALIDATION_ERROR' | 'BAD_REQUEST' | 'INVALID_CREDENTIALS' | 'INVALID_TOKEN' | 'HTTPS_REQUIRED' | 'CSRF_FAILED' | 'FORBIDDEN' | 'PASSWORD_CHANGE_REQUIRED' | 'SECOND_FACTOR_REQUIRED' | 'NOT_FOUND' | 'METHOD_NOT_ALLOWED' | 'REQUEST_TIMEOUT' | 'PAYLOAD_TOO_LARGE' | 'UNSUPPORTED_MEDIA_TYPE' | 'EXPECTATION_FAILED' | 'TOO_MANY_ATTEMPTS' | 'TOO_MANY_REQUESTS' | 'HEADERS_TOO_LARGE' | 'INTERNAL_ERROR' | 'SECOND_FACTOR_UNAVAILABLE' | 'SERVICE_UNAVAILABLE';
export type ErrorCode = ServiceCode | 'NO_ANSWER' | 'NO_COOKIE' | 'NOT_LOGGED_IN' | 'OTHER_USER' | 'UNEXPECTED';
export type PasswordFlaw = 'too_short' | 'too_long' | 'too_common' | 'personal' | 'unchanged';
export type FactorFlaw = 'malformed' | 'wrong_code' | 'passkey_wrong' | 'passkey_elsewhere' | 'passkey_late' | 'passkey_known' | 'too_many_passkeys' | 'no_second_factor' | 'demanded';
export type FactorChange = {
    secret: string;
    newOtp: string;
    newPassword?: string;
} | {
    secret: null;
} | {
    remove: string;
} | {
    recoveryCodes: true;
};
export type Data = {
    user: User;
    accessToken: string;
    refreshToken?: string;
    expiresIn: number;
    recoveryCodes?: string[];
    session: CurrentSession;
    sessions: Session[];
    next?: string;
};
export type Envelope = {
    data: Data;
    error?: {
        code: ServiceCode;
        message: string;
        reason?: PasswordFlaw | FactorFlaw;
    };
};
export type Call = {
    method: string;
    path: string;
    body?: object;
    headers?: Record<string, string>;
};
/** A failure that the service answered with; status 0 if it did not answer. */
export declare class LoginError extends Error {
    code: ErrorCode;
    status: number;
    retryAfterSeconds: number | null;
    reason: FactorFlaw | PasswordFlaw | null;
    /**
     * @param {ErrorCode} code
     * @param {string} message
     * @param {number} status
     * @param {number | null} retryAfterSeconds
     * @param {PasswordFlaw | FactorFlaw | null} reason what is wrong with a new password or second factor
     */
    constructor(code: ErrorCode, message: string, status: number, retryAfterSeconds?: number | null, reason?: PasswordFlaw | FactorFlaw | null);
}
export declare class LoginClient {
    #private;
    /**
     * @param {string} baseUrl such as https://login.example.com
     * @param {{ cookie?: boolean, storage?: TokenStorage }} options
     */
    constructor(baseUrl: string, { cookie, storage }?: {
        cookie?: boolean;
        storage?: TokenStorage;
    });
    /** The user of the last answer; null before a login or restore(), and after the session has ended. */
    get user(): User | null;
    /**
     * No answer tells whether a code is missing or wrong: always show a field for it, or from the first refusal on.
     * @param {string} email
     * @param {string} password
     * @param {string} [otp] a code of the user's authenticator app, or a recovery code
     */
    login(email: string, password: string, otp?: string): Promise<User>;
    /**
     * A login that also replaces the password. All other sessions of the user end. It is the only use of a temporary
     * password, for which login() fails with PASSWORD_CHANGE_REQUIRED.
     * @param {string} email
     * @param {string} currentPassword
     * @param {string} newPassword
     * @param {string} [otp]
     */
    changePassword(email: string, currentPassword: string, newPassword: string, otp?: string): Promise<User>;
    /**
     * A login that also changes the second factor. All other sessions of the user end. Returns new recovery codes, if
     * there are any, to be shown once. login() fails with SECOND_FACTOR_REQUIRED for users that must set one up.
     * @param {string} email
     * @param {string} password
     * @param {FactorChange} change `secret`: random bytes in base32, which the user has put into an app
     * @param {string} [otp] of the present factor
     * @returns {Promise<string[] | null>}
     */
    changeSecondFactor(email: string, password: string, change: FactorChange, otp?: string): Promise<string[] | null>;
    /**
     * A login with the code that the login page has added to your address. `verifier` is the text whose SHA-256 was the
     * `challenge`. Never call it with a code that this browser did not ask for.
     * @param {string} code
     * @param {string} verifier
     */
    redeem(code: string, verifier: string): Promise<User>;
    /** Continues a session from before a restart or a reload of the page; null if there is none, or another user’s. */
    restore(): Promise<User | null>;
    /** A token that does not expire soon. Parallel calls share one refresh. */
    accessToken(): Promise<string>;
    /** The session of this client, with the user’s login before it. Fails with INVALID_TOKEN if it has ended. */
    session(): Promise<CurrentSession>;
    /** All live sessions of the user. */
    sessions(): Promise<Session[]>;
    /** @param {string} id */
    endSession(id: string): Promise<void>;
    logout(): Promise<void>;
    /** Ends all sessions of the user, this one last. Services accept access tokens until they expire. */
    logoutEverywhere(): Promise<void>;
}
